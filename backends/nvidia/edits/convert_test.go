package edits

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Every path becomes the host's, or the container's where CDI requires that.
func TestConvert(t *testing.T) {
	p := places{root: place{"/driver-root", "/run/nvidia/driver"}, dev: place{"/host", "/"}}
	var omitted []string
	got, err := p.convert(&specs.ContainerEdits{
		Env: []string{"A=1=2", "B="},
		DeviceNodes: []*specs.DeviceNode{
			{Path: "/dev/dri/card1", HostPath: "/host/dev/dri/card1", Permissions: "rwm", Major: 226},
			{Path: "/dev/nvidia0", HostPath: "/host/dev/nvidia9"},
		},
		Mounts: []*specs.Mount{
			{HostPath: "/driver-root/a", ContainerPath: "/a", Options: []string{"ro", "nosuid"}},
			{HostPath: "/driver-root/b", ContainerPath: "/b", Options: []string{"rw", "noexec"}},
			{HostPath: "/driver-rooted/c", ContainerPath: "/c"},
		},
		Hooks: []*specs.Hook{{HookName: "createContainer", Path: "/h", Env: []string{"X=1"}, Args: []string{
			"h", "--driver-root", "/driver-root", "--link", "../card1::/host/dev/dri/by-path/pci-x-card", "--link", "a::/usr/lib/b", "/driver-root",
		}}},
		AdditionalGIDs: []uint32{44},
	}, func(s string) { omitted = append(omitted, s) })
	if err != nil {
		t.Fatal(err)
	}
	want := &sdk.Edits{
		Env: map[string]string{"A": "1=2", "B": ""},
		DeviceNodes: []*sdk.DeviceNode{
			{Path: "/dev/dri/card1", Permissions: "rw"},
			{Path: "/dev/nvidia0", HostPath: "/dev/nvidia9", Permissions: "rw"},
		},
		Mounts: []*sdk.Mount{
			{HostPath: "/run/nvidia/driver/a", ContainerPath: "/a", Optional: true, Options: []string{"nosuid"}},
			{HostPath: "/run/nvidia/driver/b", ContainerPath: "/b", Optional: true, Options: []string{"noexec"}, Writable: true},
		},
		Hooks: []*backendv1.OciHook{{HookName: "createContainer", Path: "/h", Env: []string{"X=1"}, Args: []string{
			"h", "--driver-root", "/run/nvidia/driver", "--link", "../card1::/dev/dri/by-path/pci-x-card", "--link", "a::/usr/lib/b", "/driver-root",
		}}},
		AdditionalGids: []uint32{44},
	}
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Error(d)
	}
	if len(omitted) != 1 {
		t.Errorf("left out: %q", omitted)
	}
	for _, bad := range []*specs.ContainerEdits{
		{Env: []string{"A"}},
		{DeviceNodes: []*specs.DeviceNode{{Path: "/dev/nvidia0"}}},
	} {
		if got, err := p.convert(bad, func(string) {}); err == nil {
			t.Errorf("%v became %v", bad, got)
		}
	}
}

// The core refuses a device with two nodes or mounts at one path, and group 0.
func TestMerge(t *testing.T) {
	hook := &backendv1.OciHook{HookName: "createContainer", Path: "/h", Args: []string{"h", "a"}}
	other := &backendv1.OciHook{HookName: "createContainer", Path: "/h", Args: []string{"h", "b"}}
	got := merge(
		&sdk.Edits{
			Env:            map[string]string{"A": "first"},
			DeviceNodes:    []*sdk.DeviceNode{{Path: "/dev/a"}},
			Mounts:         []*sdk.Mount{{ContainerPath: "/a", HostPath: "/first"}},
			Hooks:          []*backendv1.OciHook{hook, other},
			AdditionalGids: []uint32{44, 0},
		}, nil,
		&sdk.Edits{
			Env:            map[string]string{"A": "second", "B": "b", "C": "c"},
			EnvSeparators:  map[string]string{"A": ";", "C": ","},
			DeviceNodes:    []*sdk.DeviceNode{{Path: "/dev/a", HostPath: "/dev/other"}, {Path: "/dev/b"}},
			Mounts:         []*sdk.Mount{{ContainerPath: "/a", HostPath: "/second"}, {ContainerPath: "/b", HostPath: "/b"}},
			Hooks:          []*backendv1.OciHook{hook},
			AdditionalGids: []uint32{44, 7},
		})
	want := &sdk.Edits{
		Env:            map[string]string{"A": "first", "B": "b", "C": "c"},
		EnvSeparators:  map[string]string{"C": ","},
		DeviceNodes:    []*sdk.DeviceNode{{Path: "/dev/a"}, {Path: "/dev/b"}},
		Mounts:         []*sdk.Mount{{ContainerPath: "/a", HostPath: "/first"}, {ContainerPath: "/b", HostPath: "/b"}},
		Hooks:          []*backendv1.OciHook{hook, other},
		AdditionalGids: []uint32{7, 44},
	}
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Error(d)
	}
}
