package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Verifies that validate names the backends whose edits the configuration refuses as a whole.
func TestValidateNamesBackendsThatMayGiveNothing(t *testing.T) {
	for backend, want := range map[string]bool{
		"{name: acme}": true, "{name: acme, allow: {declared: accept}}": false, "{name: acme, allow: {env: [ACME_*]}}": false,
		"{name: mock}": false, "{name: mock, allow: {declared: refuse}}": true,
	} {
		file := filepath.Join(t.TempDir(), "node.yaml")
		text := "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles: [{name: a, backends: [" + backend + "]}]\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		command := newValidateCommand()
		command.SetArgs([]string{file})
		command.SetOut(&out)
		if err := command.ExecuteContext(t.Context()); err != nil || strings.Contains(out.String(), "may give nothing to containers") != want {
			t.Errorf("%s: %v, printed %s", backend, err, &out)
		}
	}
}
