package main

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
)

// showContainer prints what a container gets: kubelet's settings, and the edits of its CDI
// devices.
func (d *demo) showContainer(settings *kubelettest.Settings) error {
	direct := &specs.ContainerEdits{}
	for _, name := range slices.Sorted(maps.Keys(settings.Envs)) {
		direct.Env = append(direct.Env, name+"="+settings.Envs[name])
	}
	for _, device := range settings.Devices {
		direct.DeviceNodes = append(direct.DeviceNodes, &specs.DeviceNode{
			Path: device.GetContainerPath(), HostPath: device.GetHostPath(), Permissions: device.GetPermissions(),
		})
	}
	for _, mount := range settings.Mounts {
		m := &specs.Mount{HostPath: mount.GetHostPath(), ContainerPath: mount.GetContainerPath()}
		if mount.GetReadOnly() {
			m.Options = []string{"ro"}
		}
		direct.Mounts = append(direct.Mounts, m)
	}
	d.showEdits("", direct)
	for _, name := range slices.Sorted(maps.Keys(settings.Annotations)) {
		d.screen.say("annotation   %s=%s", name, settings.Annotations[name])
	}
	return d.showCDI(settings.CDIDevices)
}

// showCDI resolves CDI names as a container runtime does, from the files on disk. The edits
// that all devices of a spec share are printed once.
func (d *demo) showCDI(names []string) error {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(filepath.Join(d.dir, "cdi")), cdi.WithAutoRefresh(false))
	if err != nil {
		return err
	}
	shown := map[*cdi.Spec]bool{}
	for _, name := range names {
		d.screen.say("CDI device   %s", name)
		device := cache.GetDevice(name)
		if device == nil {
			return fmt.Errorf("no CDI spec in %s defines %s: a container runtime would not start the container", filepath.Join(d.dir, "cdi"), name)
		}
		if spec := device.GetSpec(); !shown[spec] {
			shown[spec] = true
			d.showEdits("  ", &spec.ContainerEdits)
		}
		d.showEdits("  ", &device.ContainerEdits)
	}
	return nil
}

// showEdits prints one line for each edit.
func (d *demo) showEdits(indent string, edits *specs.ContainerEdits) {
	show := func(kind, format string, args ...any) {
		d.screen.say("%s%-*s %s", indent, 12-len(indent), kind, fmt.Sprintf(format, args...))
	}
	for _, env := range edits.Env {
		show("env", "%s", env)
	}
	for _, node := range edits.DeviceNodes {
		show("node", "%s (host: %s, %s)", node.Path, cmp.Or(node.HostPath, node.Path), node.Permissions)
	}
	for _, mount := range edits.Mounts {
		show("mount", "%s (host: %s, %s)", mount.ContainerPath, mount.HostPath, strings.Join(mount.Options, ","))
	}
	for _, hook := range edits.Hooks {
		show("hook", "%s %s %s", hook.HookName, hook.Path, strings.Join(hook.Args, " "))
	}
	for _, gid := range edits.AdditionalGIDs {
		show("gid", "%d", gid)
	}
}
