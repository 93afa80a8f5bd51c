[
  inputs: ["*.exs", "lib/**/*.ex", "test/**/*.{ex,exs}", "bench/*.exs"],
  line_length: 110
]
