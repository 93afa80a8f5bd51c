defmodule EchoMQ.NativeTest do
  use EchoMQ.Test.Case, async: true

  @tag :tmp_dir
  test "a library that does not load says on which platform, and what the loader said", %{tmp_dir: folder} do
    application = Path.join(folder, "echo_mq")
    File.mkdir_p!(Path.join(application, "priv/native"))
    File.cp_r!(Path.join(Mix.Project.app_path(), "ebin"), Path.join(application, "ebin"))
    File.write!(Path.join(application, "priv/native/libechomq_nif.so"), "no library")

    arguments = ["-pa", Path.join(application, "ebin"), "-e", "EchoMQ.core_version()"]
    assert {output, 1} = System.cmd("elixir", arguments, stderr_to_stdout: true)

    assert output =~
             "the native library of EchoMQ does not load on #{:erlang.system_info(:system_architecture)}"

    assert output =~ "libechomq_nif.so"
  end

  test "the package and the core are of one version" do
    assert EchoMQ.version() == EchoMQ.core_version()
    assert EchoMQ.version() == to_string(Application.spec(:echo_mq, :vsn))
  end
end
