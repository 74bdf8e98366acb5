package config

import (
	"slices"
	"strings"
	"testing"
)

// allowOf is what the only backend of a configuration is allowed.
func allowOf(t *testing.T, backend string) (EditPolicy, error) {
	t.Helper()
	c, err := Parse("node.yaml", []byte("apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n- name: default\n  backends:\n  - "+backend+"\n"))
	if err != nil {
		return EditPolicy{}, err
	}
	return c.Profiles[0].Backends[0].Allow, nil
}

// A backend may return the edits of its program's preset, unless the
// configuration says otherwise; the lists add to that.
func TestPresets(t *testing.T) {
	for backend, want := range map[string][]string{
		"{name: nvidia}": {"nvidia"},
		"{name: gpus, command: accelmux-backend-nvidia}":                        {"nvidia"},
		"{name: nvidia, command: nvidia}":                                       nil,
		"{name: acme}":                                                          nil,
		"{name: nvidia, allow: {presets: []}}":                                  {},
		"{name: nvidia, allow: {presets: [nvidia, nvidia-mps]}}":                {"nvidia", "nvidia-mps"},
		"{name: nvidia, allow: {devices: [/dev/x]}}":                            {"nvidia"},
		"{name: acme, allow: {presets: [amd], env: [ACME_*], gids: [44, 4e1]}}": nil,
	} {
		allow, err := allowOf(t, backend)
		if strings.Contains(backend, "4e1") != (err != nil) {
			t.Errorf("%s: %v", backend, err)
		}
		if !slices.Equal(allow.Presets, want) {
			t.Errorf("%s has the presets %q, want %q", backend, allow.Presets, want)
		}
	}
	allow, err := allowOf(t, "{name: amd, allow: {devices: [/dev/x], mounts: [/y], hooks: [/z], env: [E], gids: [7]}}")
	if err != nil {
		t.Fatal(err)
	}
	got := allow.Expand()
	if !slices.Contains(got.Devices, "/dev/kfd") || !slices.Contains(got.Devices, "/dev/x") || !slices.Equal(got.Mounts, []string{"/y"}) ||
		!slices.Equal(got.Hooks, []string{"/z"}) || !slices.Equal(got.Env, []string{"E"}) || !slices.Equal(got.GIDs, []uint32{7}) {
		t.Errorf("expanded to %+v", got)
	}
	for _, wrong := range []string{"presets: [nvdia]", "env: ['*']", "env: [A*B]", "gids: [0]", "gids: [4294967295]"} {
		if _, err := allowOf(t, "{name: nvidia, allow: {"+wrong+"}}"); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
	for _, name := range Presets() {
		preset := presets[name]
		for _, patterns := range [][]string{preset.Devices, preset.Mounts, preset.ReadOnlyMounts, preset.Hooks} {
			for _, pattern := range patterns {
				if err := checkPattern(pattern); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		for _, pattern := range preset.Env {
			if err := checkEnvPattern(pattern); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
