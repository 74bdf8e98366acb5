package sysfs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Write writes a text to an existing file, in one call, and returns when the driver has done the
// request. It neither creates nor truncates a file. Errors are those of [Writable].
func Write(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return Writable(err)
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// Writable returns an error of a file of sysfs that was opened to be written, with what an operator has to
// do if the file system is read-only.
func Writable(err error) error {
	if errors.Is(err, unix.EROFS) {
		return fmt.Errorf("%w: the agent may only read /sys; under systemd set ProtectKernelTunables=no in a drop-in for its unit "+
			"(deployments/systemd/README.md), in a pod mount /sys/devices for writing (deployments/helm/accelmux/examples/device.yaml)", err)
	}
	return err
}
