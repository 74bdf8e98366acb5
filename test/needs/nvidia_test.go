package needs

import (
	"fmt"
	"testing"

	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/manifests"
)

// containers returns what NVIDIA's manifest lets edits contain with settings.
func containers(t *testing.T, settings string) inventory.EditScope {
	t.Helper()
	m := manifests.Load(t, source("nvidia"))
	rights, err := m.Rights(manifests.Merged(t, m, settings))
	if err != nil {
		t.Fatal(err)
	}
	return rights.Containers
}

// refused returns why edits are refused, or parts of them left out.
func refused(scope inventory.EditScope, wire *backendv1.ContainerEdits) error {
	_, remark, err := inventory.ParseEdits(inventory.Policy{Declared: scope, AcceptDeclared: true}, wire)
	if err == nil && remark != "" {
		err = fmt.Errorf("%s", remark)
	}
	return err
}

// Verifies that what nvidia-container-toolkit looks for is allowed without a word in the
// configuration, wherever the settings say that the driver is: one more file of the driver costs
// no GPU.
func TestNVIDIAsFilesAreAllowed(t *testing.T) {
	for _, root := range []string{"", "/run/nvidia/driver", "/home/kubernetes/bin/nvidia", "/opt/driver"} {
		wire := &backendv1.ContainerEdits{
			Env: map[string]string{"NVIDIA_VISIBLE_DEVICES": "void", "NVIDIA_CTK_LIBCUDA_DIR": "/usr/lib64", "NVIDIA_GDS": "enabled"},
			Hooks: []*backendv1.OciHook{
				{HookName: "createContainer", Path: "/usr/bin/nvidia-cdi-hook", Env: []string{"NVIDIA_CTK_DEBUG=false"}},
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
			"/etc/cufile.json", "/run/udev/data",
		} {
			wire.Mounts = append(wire.Mounts, &backendv1.Mount{HostPath: root + file, ContainerPath: file})
		}
		settings := "{}"
		if root != "" {
			wire.Mounts = append(wire.Mounts, &backendv1.Mount{HostPath: root + "/vulkan/icd.d/nvidia_icd.json", ContainerPath: "/etc/vulkan/icd.d/nvidia_icd.json"})
			settings = fmt.Sprintf(`{"edits": {"driverRoot": %q, "driverRootMount": "/driver-root"}}`, root)
		}
		for _, socket := range []string{"/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket", "/tmp/nvidia-mps"} {
			wire.Mounts = append(wire.Mounts, &backendv1.Mount{HostPath: root + socket, ContainerPath: socket, Writable: true})
		}
		if err := refused(containers(t, settings), wire); err != nil {
			t.Errorf("below %q: %v", root, err)
		}
	}
}

// Verifies that what an option or MPS gives to containers is a right with its settings only.
func TestNVIDIAsOptions(t *testing.T) {
	for settings, wire := range map[string]*backendv1.ContainerEdits{
		`{"edits": {"gdrcopy": true}}`:                    {DeviceNodes: []*backendv1.DeviceNode{{Path: "/dev/gdrdrv"}}},
		`{"edits": {"mofed": true}}`:                      {DeviceNodes: []*backendv1.DeviceNode{{Path: "/dev/infiniband/uverbs0"}, {Path: "/dev/infiniband/rdma_cm"}}},
		`{"edits": {"hook": "/opt/bin/nvidia-cdi-hook"}}`: {Hooks: []*backendv1.OciHook{{HookName: "createContainer", Path: "/opt/bin/nvidia-cdi-hook"}}},
		`{"mps": {"replicas": 2, "hostDir": "/run/acme"}}`: {
			Env: map[string]string{"CUDA_MPS_PIPE_DIRECTORY": "/x"}, Mounts: []*backendv1.Mount{{HostPath: "/run/acme/pipe", ContainerPath: "/x", Writable: true}},
		},
	} {
		if err := refused(containers(t, settings), wire); err != nil {
			t.Errorf("%s: %v", settings, err)
		}
		if refused(containers(t, "{}"), wire) == nil {
			t.Errorf("%s: allowed without it", settings)
		}
	}
}
