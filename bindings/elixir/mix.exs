# Mix loads this file before it compiles anything of the project, so the task that builds the native library stands here.
defmodule Mix.Tasks.Compile.EchomqNif do
  @moduledoc false
  use Mix.Task.Compiler

  @workspace Path.expand("../..", __DIR__)
  @library Path.join(__DIR__, "priv/native/libechomq_nif.so")

  @impl true
  def run(_arguments) do
    built = if System.get_env("ECHOMQ_PREBUILT") == "1", do: prebuilt(), else: build()
    # Makes priv visible under _build, also where it did not exist before.
    Mix.Project.build_structure()
    {built, []}
  end

  @impl true
  def clean, do: File.rm_rf!(Path.dirname(@library))

  # The library as scripts/build has left it.
  defp prebuilt do
    unless File.exists?(@library) do
      Mix.raise(
        "ECHOMQ_PREBUILT is 1, but there is no #{Path.relative_to_cwd(@library)}: run scripts/build first"
      )
    end

    :noop
  end

  defp build do
    release? = Mix.env() == :prod or System.get_env("ECHOMQ_RELEASE") not in [nil, "", "0"]
    cargo(["build", "-p", "echomq_nif"] ++ if(release?, do: ["--release"], else: []))
    target = System.get_env("CARGO_TARGET_DIR") || Path.join(@workspace, "target")
    place(Path.join([target, if(release?, do: "release", else: "debug"), "libechomq_nif" <> extension()]))
  end

  defp cargo(arguments) do
    unless System.find_executable("cargo") do
      Mix.raise("Rust is missing: the native part of echo_mq is built by cargo (or set ECHOMQ_PREBUILT=1)")
    end

    # Cargo writes to standard error and reads nothing.
    case System.cmd("cargo", arguments, cd: @workspace, stderr_to_stdout: true, into: IO.stream()) do
      {_, 0} -> :ok
      {_, status} -> Mix.raise("cargo #{Enum.join(arguments, " ")} failed with status #{status}")
    end
  end

  # A library may be mapped by a running VM, so it is replaced, never overwritten.
  defp place(built) do
    if same?(built, @library) do
      :noop
    else
      File.mkdir_p!(Path.dirname(@library))
      fresh = "#{@library}.#{System.pid()}.new"
      File.cp!(built, fresh)
      File.rename!(fresh, @library)
      :ok
    end
  end

  defp same?(built, placed), do: File.exists?(placed) and File.read!(built) == File.read!(placed)

  defp extension, do: if(match?({:unix, :darwin}, :os.type()), do: ".dylib", else: ".so")
end

defmodule EchoMQ.MixProject do
  use Mix.Project

  # The one version of all of echomq.
  @manifest Path.expand("../../Cargo.toml", __DIR__)
  @external_resource @manifest
  @version (case Regex.run(~r/^\[workspace\.package\]\nversion = "(.+)"$/m, File.read!(@manifest)) do
              [_, version] -> version
            end)

  def project do
    [
      app: :echo_mq,
      version: @version,
      elixir: "~> 1.14",
      description: "An event bus for applications written in several languages, on Valkey or Redis Streams",
      compilers: [:echomq_nif] ++ Mix.compilers(),
      elixirc_paths: if(Mix.env() == :test, do: ["lib", "test/support"], else: ["lib"]),
      start_permanent: Mix.env() == :prod,
      deps: []
    ]
  end

  def application do
    [mod: {EchoMQ.Application, []}, extra_applications: [:logger]]
  end
end
