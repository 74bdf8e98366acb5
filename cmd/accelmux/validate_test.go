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

// Verifies that validate finds what is wrong in a description of devices, with file and line.
func TestValidateFindsWrongDescriptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.yaml")
	text := `apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
- name: a
  backends:
  - name: mock
  - name: device
    settings:
      presets: [kvm, tun9]
      kinds:
      - name: acme
        match: {class: acme}
        health:
        - fault: dead
          when: selv.text("x")
        attributes:
          "a b": name
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := newValidateCommand()
	command.SetArgs([]string{file})
	command.SilenceUsage, command.SilenceErrors = true, true
	err := command.ExecuteContext(t.Context())
	for _, want := range []string{
		`node.yaml:9: profiles[0].backends[1].settings.presets[1]: "tun9" is no preset`,
		`node.yaml:15: profiles[0].backends[1].settings.kinds[0].health[0].when: "selv.text(\"x\")", character 1: undeclared reference to 'selv'`,
		`node.yaml:17: profiles[0].backends[1].settings.kinds[0].attributes["a b"]: the name must be`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}
