package backends

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/config"
)

const acme = `apiVersion: backend.accelmux.io/v1
kind: Backend
name: acme
vendor: Acme
version: 1.2.3
protocols: [1]
classes: [npu]
abilities: [reset]
inUse: core
settings:
  type: object
  additionalProperties: false
  properties: {dir: {type: string, default: /opt/acme}, reset: {type: boolean}, node: {type: string}}
attributes: [{name: model, kind: string, about: the product}]
hardware: [{vendor: "1ac1", class: "12", name: Acme NPU}]
pausedWhile: [{label: acme.example/upgrade, values: [running]}]
process:
  - {why: It reads its files., read: [{setting: dir, below: "**"}]}
  - {why: It resets boards., when: {setting: reset}, capabilities: [CAP_SYS_ADMIN]}
containers:
  - {why: Boards., devices: ["/dev/acme[0-9]*", {setting: node, default: ""}], gids: [44]}
`

// directory is one with the programs acme, other (without a manifest) and what lies beside them.
func directory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o755), //nolint:gosec // a backend directory
		os.WriteFile(filepath.Join(dir, "accelmux-backend-acme"), []byte("#!/bin/sh\n"), 0o755), //nolint:gosec // a program
		os.WriteFile(filepath.Join(dir, "accelmux-backend-acme.yaml"), []byte(acme), 0o600),
		os.WriteFile(filepath.Join(dir, "accelmux-backend-other"), []byte("#!/bin/sh\n"), 0o755)); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return dir
}

func configuration(t *testing.T, backends string) *config.NodeConfig {
	t.Helper()
	c, err := config.Parse("node.yaml", []byte("apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles: [{name: p, backends: ["+backends+"]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Verifies that the list has the programs of the directory and those that the configuration names, with what is wrong.
func TestList(t *testing.T) {
	all, err := List(directory(t), configuration(t, "{name: npu, command: accelmux-backend-acme}, {name: gone}"))
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	WriteList(&table, all)
	got := strings.Split(strings.TrimSpace(table.String()), "\n")
	for i, want := range []string{
		"PROGRAM\tVERSION\tVENDOR\tUSED BY\tPROBLEM", "accelmux-backend-acme\t1.2.3\tAcme\tp/npu\t-", "accelmux-backend-gone\t-\t-\tp/gone\tthe program ", "accelmux-backend-other\t-\t-\t-\tthe manifest ",
	} {
		if i >= len(got) || !strings.HasPrefix(got[i], want) {
			t.Errorf("line %d: %q, want %q", i, got, want)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d lines: %q", len(got), got)
	}
}

// Verifies what people read of a manifest: what it asks for with the settings of each backend, and what the configuration
// gives.
func TestWrite(t *testing.T) {
	dir := directory(t)
	d, err := Describe(t.Context(), dir, "npu", configuration(t, "{name: npu, command: accelmux-backend-acme, settings: {dir: /opt/other, node: /dev/loop0}, allow: {devices: [/dev/x], process: {read: [/etc/x]}}}, "+
		"{name: wrong, command: accelmux-backend-acme, settings: {rest: true}, allow: {declared: accept}}"))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	d.Write(&text)
	got := strings.NewReplacer(dir, "DIR", d.ManifestChecksum, "SUM").Replace(text.String())
	want := `accelmux-backend-acme: acme 1.2.3, vendor Acme
  manifest          DIR/accelmux-backend-acme.yaml
  checksum          sha256:a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf
  manifestChecksum  SUM
  classes           npu
  abilities         reset
  in use            core
  hardware          Acme NPU (vendor 1ac1, class 12)
  paused while      acme.example/upgrade: running
  attributes        model (string): the product

Backend npu of profile p, with declared: refuse:
  The agent looks whether a process has a device open, before: Reset
  The process asks for, and does not get unless allow has it:
    It reads its files.
      read            /opt/other/**
    It resets boards. (not with these settings)
  Containers would get, and do not unless allow has it:
    Boards.
      devices         /dev/acme[0-9]*
      gids            44
  Only allow gives:
    node: "/dev/loop0" is a disk: containers get it only if allow.devices has exactly this path
  The configuration gives the process by allow.process:
      read            /etc/x
  The configuration gives containers by allow:
      devices         /dev/x

Backend wrong of profile p, with declared: accept:
  the settings are refused: rest: unknown field "rest"; did you mean "reset"?
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Verifies that a name is that of a backend, of its program, or the program itself, also without a configuration.
func TestNames(t *testing.T) {
	dir := directory(t)
	for _, name := range []string{"acme", "accelmux-backend-acme"} {
		d, err := Describe(t.Context(), dir, name, nil)
		if err != nil || len(d.Uses) != 1 || d.Uses[0].Declared != config.RefuseDeclared || len(d.Uses[0].Process) != 2 {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	for name, want := range map[string]string{"gone": "; there are acme", "acm": `; did you mean "acme"?`} {
		want = fmt.Sprintf("no backend %q is installed in %s%s", name, dir, want)
		if _, err := Describe(t.Context(), dir, name, nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("a program that is not there: %v, want %s", err, want)
		}
	}
}
