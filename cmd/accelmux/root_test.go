package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/cmd/arguments"
	"github.com/accelmux/accelmux/cmd/arguments/argumentstest"
)

// wrongly returns what is printed for a wrong use of a command.
func wrongly(t *testing.T, line string) string {
	t.Helper()
	root := newRootCommand()
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	root.SetIn(strings.NewReader(""))
	args := strings.Fields(line)
	root.SetArgs(args)
	err := arguments.CheckCommand(root, args)
	if err == nil {
		err = root.ExecuteContext(t.Context())
	}
	if err == nil {
		t.Errorf("%s is accepted", line)
		return ""
	}
	return err.Error()
}

// Verifies what people see who use a command wrongly.
func TestWrongUse(t *testing.T) {
	argumentstest.Check(t, newRootCommand)
	for line, want := range map[string]string{
		"topology explian -n 4":               `"explian" is not the name of a resource, such as nvidia.com/gpu; did you mean "accelmux topology explain"?`,
		"topology gpu":                        "\"gpu\" is not the name of a resource, such as nvidia.com/gpu: `accelmux topology [RESOURCE] [flags]`",
		"topology explain --claim FILE -n 2":  "the claims of --claim have what is asked for: leave out --count",
		"topology explain --inventory FILE":   "--inventory is for claims: set --claim to the file with them",
		"topology explain --count=two":        "--count must be a whole number, is \"two\"; `accelmux topology explain --help` lists the flags",
		"launcher --program accelmux-backend": "set --program and --socket; `accelmux launcher --help` has an example",
		"run --launcher=nvidia":               "--launcher must be PROGRAM=SOCKET, is \"nvidia\"; `accelmux run --help` lists the flags",
		"run -config node.yaml":               "unknown flag: -config; did you mean \"--config\"?; `accelmux run --help` lists the flags",
		"run --config":                        "--config needs a value; `accelmux run --help` lists the flags",
		"run --log-level=trace":               `--log-level "trace": use one of debug, info, warn, error`,
		"backends nvidia amd":                 "unexpected argument \"amd\": `accelmux backends [NAME] [flags]`",
		"completion bsh":                      `accelmux completion: "bsh" is not a shell; did you mean "bash"?`,
		"convert nvidia":                      `accelmux convert: "nvidia" is not a plugin; the plugins are amd-device-plugin, generic-device-plugin, intel-fpga-plugin, kubevirt, nvidia-device-plugin, rdma-shared-device-plugin, smarter-device-manager, sriov-device-plugin, xilinx-device-plugin`,
	} {
		if got := wrongly(t, line); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", line, got, want)
		}
	}
}

// Verifies that each command with flags of few values names these for another one, before it does anything.
func TestValuesOfFlags(t *testing.T) {
	found := 0
	var visit func(c *cobra.Command, path []string)
	visit = func(c *cobra.Command, path []string) {
		for _, flag := range []string{"output", "log-level", "log-format", "sort-by", "sandbox"} {
			if c.Flags().Lookup(flag) == nil {
				continue
			}
			found++
			line := append(slices.Clone(path), "--"+flag+"=no-such-value")
			switch c.Name() {
			case "validate", "check-backend":
				line = append(line, "no-such-file")
			case "launcher":
				line = append(line, "--program=p", "--socket=s")
			}
			if got := wrongly(t, strings.Join(line, " ")); !strings.Contains(got, `"no-such-value"`) || !strings.Contains(got, "use ") {
				t.Errorf("%s: %s", line, got)
			}
		}
		for _, s := range c.Commands() {
			visit(s, append(slices.Clone(path), s.Name()))
		}
	}
	visit(newRootCommand(), nil)
	if found < 15 {
		t.Errorf("only %d flags were found", found)
	}
}
