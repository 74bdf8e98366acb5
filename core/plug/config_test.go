package plug

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/manifest"
	"github.com/accelmux/accelmux/test/programs"
)

// Verifies that all that is wrong with settings is found before anything starts, with file, line and field, and that a backend
// without a manifest costs no other one.
func TestCheckConfig(t *testing.T) {
	dir := t.TempDir()
	programs.InstallManifest(t, filepath.Join("..", "..", "backends", "device"), filepath.Join(dir, "accelmux-backend-device"))
	programs.InstallManifest(t, filepath.Join("..", "..", "backends", "nvidia"), filepath.Join(dir, "accelmux-backend-nvidia"))
	check := func(backends string) string {
		t.Helper()
		data := []byte("apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n- name: a\n  backends:\n" + backends)
		return Check{Dir: dir}.Run(t.Context(), "node.yaml", data).Errors.Error()
	}
	if got := check("  - {name: missing, settings: {a: b}}\n  - {name: nvidia, settings: {mig: {strategy: mixed}}}\n  - {name: device, settings: {presets: [kvm]}}\n"); got != "" {
		t.Error(got)
	}
	got := check("  - {name: missing, settings: {a: b}}\n  - name: nvidia\n    settings:\n      mig: {strategy: mixd}\n  - name: device\n    settings:\n      presets: [kvm, tun9]\n      intervl: 1s\n")
	for _, want := range []string{
		"node.yaml:9:13: profiles[0].backends[1].settings.mig.strategy: ", `node.yaml:12:22: profiles[0].backends[2].settings.presets[1]: there is no preset "tun9"; did you mean "tun"?`,
		`node.yaml:13:7: profiles[0].backends[2].settings.intervl: unknown field "intervl"; did you mean "interval"?`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %s", got, want)
		}
	}
	// A resource that is empty by a name which no manifest has, unless one is missing.
	const nobody = "  resources:\n  - {name: e.x/a, class: migs}\n  - {name: e.x/b, selector: 'device.attributes[\"nvidia\"].modle == \"x\"'}\n"
	got = check("  - {name: nvidia}\n" + nobody)
	for _, want := range []string{`node.yaml:8:19: profiles[0].resources[0].class: no backend has devices of the class migs`, "node.yaml:9:19: profiles[0].resources[1].selector: no device of backend nvidia has the attribute modle"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %s", got, want)
		}
	}
	if got := check("  - {name: nvidia}\n  - {name: missing}\n  resources: [{name: e.x/a, class: migs}]\n"); got != "" {
		t.Error(got)
	}
	// A schema that cannot be used is the problem of its backend alone, and no error of the settings.
	programs.Manifest(t, filepath.Join(dir, "accelmux-backend-bad"), `settings: {type: object, properties: {a: {$ref: "https://example.com/x.json"}}}`)
	bad, err := manifest.Load(filepath.Join(dir, "accelmux-backend-bad.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Resolve(t.Context(), bad, []byte(`{"a": "b"}`)); err == nil || !strings.Contains(err.Error(), "the schema of settings in the manifest cannot be used: ") || !strings.Contains(err.Error(), "example.com") {
		t.Errorf("settings of a schema that refers elsewhere: %v", err)
	}
	if got := check("  - {name: bad, settings: {a: b}}\n  - {name: nvidia, settings: {mig: {strategy: mixd}}}\n"); strings.Contains(got, "backends[0]") || !strings.Contains(got, "backends[1].settings.mig.strategy") {
		t.Error(got)
	}
	// What nobody gets is an error of the setting that leads to it.
	if got := check("  - name: nvidia\n    settings:\n      library: /var/lib/kubelet/lib.so\n"); !strings.Contains(got, "node.yaml:8:7: profiles[0].backends[0].settings.library: ") {
		t.Error(got)
	}
}
