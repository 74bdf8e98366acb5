package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies which entries of a scope no edits have used: patterns of any kind, and a writable mount that is only read.
func TestUnused(t *testing.T) {
	scope := EditScope{
		Devices: []string{"/dev/a*", "/dev/b", "/dev/dir"}, Mounts: []string{"/run/x", "/run/y/**"}, ReadOnlyMounts: []string{"/usr/**", "/opt/*"}, Hooks: []string{"/bin/h", "/bin/i"},
		Env: []string{"A*", "B"}, NetDevices: []string{"can*", "eth0"}, GIDs: []uint32{7, 8},
	}
	used := ScopeOf(&backendv1.ContainerEdits{
		DeviceNodes: []*backendv1.DeviceNode{{Path: "/dev/b", HostPath: "/dev/a0"}, {Path: "/dev/dir/0"}},
		Mounts:      []*backendv1.Mount{{HostPath: "/run/x"}, {HostPath: "/usr/lib/x", Writable: true}},
		Hooks:       []*backendv1.OciHook{{Path: "/bin/h"}}, Env: map[string]string{"AB": "1"}, NetDevices: []*backendv1.NetDevice{{HostName: "can0"}}, AdditionalGids: []uint32{7},
	})
	want := EditScope{
		Devices: []string{"/dev/b"}, Mounts: []string{"/run/y/**"}, ReadOnlyMounts: []string{"/opt/*"}, Hooks: []string{"/bin/i"}, Env: []string{"B"}, NetDevices: []string{"eth0"}, GIDs: []uint32{8},
	}
	if diff := cmp.Diff(want, scope.Unused(used)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if left := scope.Unused(EditScope{}); !left.Equal(scope) {
		t.Errorf("without edits: %+v", left)
	}
}
