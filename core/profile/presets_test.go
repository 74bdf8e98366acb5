package profile

import (
	"testing"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// presetPolicy is that of a backend for which the configuration says nothing.
func presetPolicy(t *testing.T, name string) inventory.Policy {
	t.Helper()
	c, err := config.Parse("node.yaml", []byte("apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n- {name: default, backends: [{name: "+name+"}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	policy := EditPolicy(&c.Profiles[0].Backends[0], inventory.HostNodes{})
	policy.Declared = inventory.EditScope{Devices: []string{"/**"}, Mounts: []string{"/**"}, Hooks: []string{"/**"}, Env: []string{"*"}}
	return policy
}

// What nvidia-container-toolkit looks for is allowed without a word in the configuration:
// one more file of the driver costs no GPU.
func TestNVIDIAsFilesAreAllowed(t *testing.T) {
	policy := presetPolicy(t, "nvidia")
	for _, root := range []string{"", "/run/nvidia/driver", "/home/kubernetes/bin/nvidia"} {
		wire := &backendv1.ContainerEdits{
			Env: map[string]string{"NVIDIA_VISIBLE_DEVICES": "void", "NVIDIA_CTK_LIBCUDA_DIR": "/usr/lib64", "NVIDIA_GDS": "enabled"},
			Hooks: []*backendv1.OciHook{
				{HookName: "createContainer", Path: "/usr/bin/nvidia-cdi-hook", Env: []string{"NVIDIA_CTK_DEBUG=false"}},
				{HookName: "createRuntime", Path: "/usr/local/nvidia/toolkit/nvidia-cdi-hook"},
			},
		}
		for _, node := range []string{
			"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset", "/dev/nvidia-caps/nvidia-cap3",
			"/dev/nvidia-caps-imex-channels/channel0", "/dev/dri/card0", "/dev/dri/renderD128", "/dev/nvidia-fs0",
		} {
			wire.DeviceNodes = append(wire.DeviceNodes, &backendv1.DeviceNode{Path: node, HostPath: root + node})
		}
		for _, file := range []string{
			"/usr/lib/x86_64-linux-gnu/libcuda.so.570.1", "/usr/lib64/libnvidia-ml.so.570.1", "/lib64/libcuda.so.570.1", "/usr/local/lib/libcuda.so.570.1",
			"/usr/bin/nvidia-smi", "/usr/sbin/nvidia-persistenced", "/lib/firmware/nvidia/570.1/gsp_ga10x.bin", "/lib/firmware/updates/nvidia/570.1/gsp_ga10x.bin",
			"/etc/X11/xorg.conf.d/10-nvidia.conf", "/etc/X11/xorg.conf.d/nvidia-drm-outputclass.conf", "/usr/share/X11/xorg.conf.d/10-nvidia.conf",
			"/etc/glvnd/egl_vendor.d/10_nvidia.json", "/etc/egl/egl_external_platform.d/15_nvidia_gbm.json",
			"/usr/local/share/vulkan/icd.d/nvidia_icd.json", "/usr/share/vulkan/icd.d/nvidia_icd.x86_64.json", "/etc/vulkan/implicit_layer.d/nvidia_layers.json",
			"/etc/OpenCL/vendors/nvidia.icd", "/etc/nvidia/nvoptix.bin", "/usr/share/nvidia/nvoptix.bin", "/usr/X11R6/lib/modules/drivers/nvidia_drv.so",
			"/etc/cufile.json", "/run/udev",
		} {
			wire.Mounts = append(wire.Mounts, &backendv1.Mount{HostPath: root + file, ContainerPath: file})
		}
		if root == "/home/kubernetes/bin/nvidia" {
			wire.Mounts = append(wire.Mounts, &backendv1.Mount{HostPath: root + "/vulkan/icd.d/nvidia_icd.json", ContainerPath: "/etc/vulkan/icd.d/nvidia_icd.json"})
		}
		for _, socket := range []string{"/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket", "/tmp/nvidia-mps"} {
			wire.Mounts = append(wire.Mounts, &backendv1.Mount{HostPath: root + socket, ContainerPath: socket, Writable: true})
		}
		if e, remark, err := inventory.ParseEdits(policy, wire); err != nil || remark != "" || len(e.Mounts) != len(wire.Mounts) {
			t.Errorf("below %q: %v %s", root, err, remark)
		}
	}
}

// Nothing else of the host is: not another vendor's nodes, not those of memory and disks by
// names that no list has, no file of the host's to write to, no variable that runs code, and
// not the kernel's file systems in a driver's container: with hostPID, /proc/1/root there is
// the host's root.
func TestWhatNoPresetAllows(t *testing.T) {
	for _, backend := range []string{"nvidia", "amd", "fpga", "mock", "acme"} {
		policy := presetPolicy(t, backend)
		for _, node := range []string{
			"/dev/dax0.0", "/dev/cxl/mem0", "/dev/raw/raw1", "/dev/crash", "/dev/zfs", "/dev/mpt3ctl", "/dev/ipmi0", "/dev/shm", "/dev/sda", "/dev/vg0/root",
			"/dev/longhorn/pvc-1", "/dev/dasda", "/dev/cciss/c0d0", "/dev/ublkb0", "/dev/kvm", "/dev/fuse", "/dev/vfio/vfio", "/dev/net/tun", "/dev/tty", "/dev/mem",
		} {
			if _, _, err := inventory.ParseEdits(policy, &backendv1.ContainerEdits{DeviceNodes: []*backendv1.DeviceNode{{Path: node}}}); err == nil {
				t.Errorf("%s may give %s", backend, node)
			}
		}
		for _, mount := range []string{"/etc", "/etc/shadow", "/usr/lib/libc.so.6", "/run/containerd/containerd.sock", "/var/lib/kubelet", "/dev/shm"} {
			if _, _, err := inventory.ParseEdits(policy, &backendv1.ContainerEdits{Mounts: []*backendv1.Mount{{HostPath: mount, ContainerPath: "/x", Writable: true}}}); err == nil {
				t.Errorf("%s may mount %s to write to it", backend, mount)
			}
		}
		for _, root := range []string{"", "/run/nvidia/driver", "/home/kubernetes/bin/nvidia"} {
			for _, below := range []string{"/proc/1/root/etc/shadow", "/proc/1/root/usr/lib/x.so", "/sys/kernel/debug", "/dev/shm/x", "/dev/vg0/root", "/etc/shadow", "/root/.ssh/id_rsa", "/run/secrets/token"} {
				if _, _, err := inventory.ParseEdits(policy, &backendv1.ContainerEdits{Mounts: []*backendv1.Mount{{HostPath: root + below, ContainerPath: "/x"}}}); err == nil {
					t.Errorf("%s may mount %s", backend, root+below)
				}
			}
		}
		for _, name := range []string{"BASH_ENV", "NODE_OPTIONS", "PYTHONSTARTUP", "JAVA_TOOL_OPTIONS", "HOME"} {
			if _, _, err := inventory.ParseEdits(policy, &backendv1.ContainerEdits{Env: map[string]string{name: "x"}}); err == nil {
				t.Errorf("%s may set %s", backend, name)
			}
		}
	}
}
