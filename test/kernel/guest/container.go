package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/accelmux/accelmux/test/kernel/wire"
)

// Bundle writes the bundle of a container that sleeps, as containerd would for a pod: no device but runc's own, those
// of the device plugin's answer, and what CDI specs add.
func (g *Guest) Bundle(c wire.Container, _ *struct{}) error {
	spec := base(c.Name)
	for name, value := range c.Settings.Envs {
		spec.Process.Env = append(spec.Process.Env, name+"="+value)
	}
	for _, m := range c.Settings.Mounts {
		mode := "rw"
		if m.GetReadOnly() {
			mode = "ro"
		}
		spec.Mounts = append(spec.Mounts, specs.Mount{
			Source: m.GetHostPath(), Destination: m.GetContainerPath(), Type: "bind", Options: []string{"rbind", mode},
		})
	}
	for _, d := range c.Settings.Devices {
		if err := addDevice(spec, d); err != nil {
			return err
		}
	}
	_, fromAnnotations, err := cdi.ParseAnnotations(c.Settings.Annotations)
	if err != nil {
		return fmt.Errorf("CDI devices of annotations: %w", err)
	}
	cache, err := cdi.NewCache(cdi.WithAutoRefresh(false))
	if err != nil {
		return fmt.Errorf("read CDI specs: %w", err)
	}
	names := c.Settings.CDIDevices
	if len(names) == 0 {
		names = fromAnnotations
	}
	if missing, err := cache.InjectDevices(spec, names...); err != nil {
		return fmt.Errorf("CDI devices %q: %w", missing, err)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("write the container's configuration: %w", err)
	}
	dir := wire.Directory(c.Name)
	return errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600))
}

// base is a container with the image's root file system and this program.
func base(name string) *specs.Spec {
	return &specs.Spec{
		Version:  "1.0.2",
		Hostname: name,
		Root:     &specs.Root{Path: "/opt/container", Readonly: true},
		Process: &specs.Process{
			Args: []string{"/bin/sleep", "2147483647"}, Cwd: "/", Env: []string{"PATH=/bin"}, NoNewPrivileges: true,
		},
		Mounts: []specs.Mount{
			{Source: "proc", Destination: "/proc", Type: "proc"},
			{Source: "tmpfs", Destination: "/dev", Type: "tmpfs", Options: []string{"nosuid", "mode=755"}},
			{Source: "sysfs", Destination: "/sys", Type: "sysfs", Options: []string{"ro"}},
		},
		Linux: &specs.Linux{
			CgroupsPath: "/kubepods/" + name,
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace}, {Type: specs.MountNamespace}, {Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace}, {Type: specs.NetworkNamespace},
			},
			Resources: &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}},
		},
	}
}

// addDevice adds a node of the device plugin's answer, or those below a directory, as containerd does
// (oci.WithDevices).
func addDevice(spec *specs.Spec, d *pluginapi.DeviceSpec) error {
	return filepath.WalkDir(d.GetHostPath(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		var stat unix.Stat_t
		if err := unix.Stat(path, &stat); err != nil {
			return fmt.Errorf("device %s: %w", path, err)
		}
		if stat.Mode&unix.S_IFMT != unix.S_IFCHR {
			if path != d.GetHostPath() {
				return nil
			}
			return fmt.Errorf("device %s: not a character device", path)
		}
		below, err := filepath.Rel(d.GetHostPath(), path)
		if err != nil {
			return err
		}
		major, minor := int64(unix.Major(stat.Rdev)), int64(unix.Minor(stat.Rdev))
		mode := fs.FileMode(stat.Mode & 0o777)
		spec.Linux.Devices = append(spec.Linux.Devices, specs.LinuxDevice{
			Path: filepath.Join(d.GetContainerPath(), below), Type: "c", Major: major, Minor: minor, FileMode: &mode,
			UID: &stat.Uid, GID: &stat.Gid,
		})
		spec.Linux.Resources.Devices = append(spec.Linux.Resources.Devices, specs.LinuxDeviceCgroup{
			Allow: true, Type: "c", Major: &major, Minor: &minor, Access: d.GetPermissions(),
		})
		return nil
	})
}
