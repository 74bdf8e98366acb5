package nvml

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// DriverVersion is that of NewState's driver, and of a Host's files.
const DriverVersion = "580.65.06"

// Host is what a node with the driver has besides the library: device nodes in
// dev, what procfs says of MIG in proc, the driver's files in driver, the container
// toolkit's hook in usr/bin, all below one directory. The files are empty, and nobody
// opens the nodes.
type Host struct {
	dir string
	dev string // below dir
}

// NewHost makes them for so many GPUs, in the slots from 0 on.
func NewHost(dir string, gpus int) (Host, error) { return newHost(Host{dir, "dev"}, gpus) }

// NewContainedHost makes them as a driver in a container has them: the device nodes
// are in driver/dev.
func NewContainedHost(dir string, gpus int) (Host, error) {
	return newHost(Host{dir, "driver/dev"}, gpus)
}

func newHost(h Host, gpus int) (Host, error) {
	err := errors.Join(
		h.file("", "usr/bin/nvidia-cdi-hook", "driver/usr/lib64/libcuda.so."+DriverVersion, "driver/usr/lib64/libnvidia-ml.so."+DriverVersion),
		h.nodes("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"),
	)
	for slot := range gpus {
		err = errors.Join(err, h.nodes(fmt.Sprintf("nvidia%d", slot)))
	}
	return h, err
}

// AddMIG makes what there is of the MIG device that State.AddMIG adds.
func (h Host) AddMIG(slot, index int) error {
	minor := 32*slot + 2*index
	dir := fmt.Sprintf("proc/driver/nvidia/capabilities/gpu%d/mig/gi%d", slot, index+1)
	return errors.Join(
		h.file(fmt.Sprintf("DeviceFileMinor: %d\n", minor), dir+"/access"),
		h.file(fmt.Sprintf("DeviceFileMinor: %d\n", minor+1), dir+"/ci0/access"),
		h.nodes(fmt.Sprintf("nvidia-caps/nvidia-cap%d", minor), fmt.Sprintf("nvidia-caps/nvidia-cap%d", minor+1)),
	)
}

func (h Host) file(text string, names ...string) error {
	var errs []error
	for _, name := range names {
		path := filepath.Join(h.dir, name)
		errs = append(errs, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
	}
	return errors.Join(errs...)
}

func (h Host) nodes(names ...string) error {
	for _, name := range names {
		path := filepath.Join(h.dir, h.dev, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
		if errors.Is(err, unix.EPERM) {
			// The one that everybody may make, since Linux 5.8; not on an overlay.
			err = unix.Mknod(path, unix.S_IFCHR|0o600, 0)
		}
		if err != nil {
			return fmt.Errorf("make the device node %s: %w", path, err)
		}
	}
	return nil
}
