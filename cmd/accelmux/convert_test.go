package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The configuration of a plugin is read from a file or from standard input, and a read that
// waits ends with the command's context.
func TestConvertInput(t *testing.T) {
	const text = "version: v1\nflags:\n  migStrategy: mixed\n"
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	piped := func(text string) io.Reader {
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.WriteString(text); err != nil {
			t.Fatal(err)
		}
		_ = out.Close()
		t.Cleanup(func() { _ = in.Close() })
		return in
	}
	opened := func(path string) io.Reader {
		in, err := os.Open(path) //nolint:gosec // a file of the test
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = in.Close() })
		return in
	}
	convert := func(ctx context.Context, in io.Reader, args ...string) (string, error) {
		var out strings.Builder
		command := newConvertCommand()
		command.SetArgs(args)
		command.SetIn(in)
		command.SetOut(&out)
		command.SetErr(io.Discard)
		command.SilenceErrors, command.SilenceUsage = true, true
		err := command.ExecuteContext(ctx)
		return out.String(), err
	}
	const nvidia, amd = "nvidia-device-plugin", "amd-device-plugin"
	for name, c := range map[string]struct {
		in   io.Reader
		args []string
		want string // in the result or in the error
	}{
		"a file":                       {nil, []string{nvidia, file("a.yaml", text)}, "strategy: mixed"},
		"standard input":               {strings.NewReader(text), []string{nvidia, "-"}, "strategy: mixed"},
		"a pipe":                       {piped(text), []string{nvidia}, "strategy: mixed"},
		"an empty pipe":                {piped(""), []string{nvidia}, "standard input is empty: of a plugin without a configuration file"},
		"nothing":                      {nil, []string{nvidia}, "there is no FILE: of a plugin without a configuration file"},
		"a plugin without a file":      {nil, []string{nvidia, "--"}, "mode: runtime"},
		"a redirected file":            {opened(file("c.yaml", text)), []string{nvidia}, "strategy: mixed"},
		"a mistyped variable":          {nil, []string{nvidia, "--env", "MIG_STRATGY=mixed"}, `variable MIG_STRATGY: it is not one of k8s-device-plugin; did you mean "MIG_STRATEGY"?`},
		"a mistyped variable of AMD's": {nil, []string{"xilinx-device-plugin", "--env", "U30AlocUnit=Card"}, `variable U30AlocUnit: it is not one of the plugin; did you mean "U30AllocUnit"?`},
		"a mistyped field":             {strings.NewReader("version: v1\nflags: {migStratgy: mixed}\n"), []string{nvidia, "-"}, `"flags.migStratgy" is not a field of k8s-device-plugin, which ignores it (line 2); did you mean "flags.migStrategy"?`},
		"a pipe beside flags":          {piped(text), []string{nvidia, "--", "--mig-strategy=none"}, "mode: runtime"},
		"an empty file":                {nil, []string{amd, file("empty", "")}, "empty is empty: of a plugin without a configuration file give its variables and flags, or `convert amd-device-plugin --`; `convert amd-device-plugin --help` has examples"},
		"a large file":                 {nil, []string{nvidia, file("large", strings.Repeat("#", maxPluginFile+1))}, "is larger than"},
		"another plugin's file":        {nil, []string{amd, file("b.yaml", text)}, `b.yaml:1:1: version: unknown field`},
		"a file after the flags":       {nil, []string{amd, "--", "config.yaml"}, "FILE goes before --"},
		"a mistyped flag":              {nil, []string{nvidia, "--", "--mig-stategy=mixed"}, `did you mean "mig-strategy"?`},
		"a ConfigMap":                  {piped("kind: ConfigMap\ndata:\n  conf.yaml: |\n    - devicematch: ^fuse$\n      nummaxdevices: 2\n"), []string{"smarter-device-manager"}, "name: smarter-devices/fuse"},
		"a wrong field":                {strings.NewReader("configList:\n- resourceNam: a\n"), []string{"rdma-shared-device-plugin", "-"}, `standard input:2:3: configList[0].resourceNam: `},
		"flags of devices":             {nil, []string{"generic-device-plugin", "--", "--device", "{name: fuse, groups: [{paths: [{path: /dev/fuse}]}]}"}, "name: squat.ai/fuse"},
		"no file":                      {nil, []string{"kubevirt"}, "FILE is missing or empty"},
		"a flag too early":             {nil, []string{"generic-device-plugin", "--device", "x"}, "flags of the plugin go after --"},
		"a mistyped plugin":            {nil, []string{"nvidia"}, "the plugins are amd-device-plugin"},
	} {
		out, err := convert(t.Context(), c.in, c.args...)
		if err != nil {
			out = err.Error()
		}
		if !strings.Contains(out, c.want) {
			t.Errorf("%s: %q, want %q", name, out, c.want)
		}
	}
	var stderr strings.Builder
	refused := newConvertCommand()
	refused.SetArgs([]string{nvidia, "-"})
	refused.SetIn(strings.NewReader("version: v1\nflags: {renameByDefault: true}\nsharing: {timeSlicing: {resources: [{name: gpu, replicas: 0}]}}\n"))
	refused.SetErr(&stderr)
	refused.SilenceErrors, refused.SilenceUsage = true, true
	if err := refused.Execute(); err == nil || !strings.Contains(stderr.String(), `note: "flags.renameByDefault" is not a field`) {
		t.Errorf("%v, without the notes: %s", err, stderr.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in, out := io.Pipe()
	defer func() { _ = out.Close() }()
	if _, err := convert(ctx, in, nvidia, "-"); !errors.Is(err, context.Canceled) {
		t.Errorf("after a signal: %v", err)
	}
}
