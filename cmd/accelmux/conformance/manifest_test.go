package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const manifestText = `apiVersion: backend.accelmux.io/v1
kind: Backend
name: acme
vendor: Acme
version: 1.0.0
protocols: [1]
classes: [npu]
inUse: core
`

// Verifies that a manifest which the agent refuses is refused here, and that the message is for the author of a backend.
func TestRefusedManifest(t *testing.T) {
	for title, test := range map[string]struct {
		manifest string // "" for none
		mode     os.FileMode
		options  Options
		want     string
	}{
		"none":             {want: "program.yaml of the program does not exist: install it with the program; a backend needs a manifest beside it (docs/manifest.md)"},
		"others can write": {manifest: manifestText, mode: 0o666, want: "program.yaml may be written by its group or others (mode 0666)"},
		"without inUse":    {manifest: strings.Replace(manifestText, "inUse: core\n", "", 1), mode: 0o644, want: "inUse: is required"},
		"a wrong schema": {
			manifest: manifestText + "settings: {type: 7}\n", mode: 0o644, want: "program.yaml cannot be used: the schema of settings in the manifest cannot be used: ",
		},
		"settings that its schema refuses": {
			manifest: manifestText + "settings: {type: object, required: [a]}\n", mode: 0o644, want: "give settings that it accepts",
		},
		"a relative root": {
			manifest: manifestText, mode: 0o644, options: Options{HostPaths: HostPaths{Sysfs: "node/sys"}}, want: "--sysfs node/sys: give an absolute path",
		},
	} {
		t.Run(title, func(t *testing.T) {
			options := test.options
			options.Program = filepath.Join(t.TempDir(), "program")
			if err := os.WriteFile(options.Program, []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			if test.manifest != "" {
				file := options.Program + ".yaml"
				if err := os.WriteFile(file, []byte(test.manifest), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(file, test.mode); err != nil {
					t.Fatal(err)
				}
			}
			_, err := Check(t.Context(), options)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
