package reset

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxAnswer bounds what is read of the driver's answer, which is a number.
const maxAnswer = 64

// recoveryFile returns the file of debugfs whose reading has the driver reset the first of
// the GPUs and, if it is in a hive, the others with it (drivers/gpu/drm/amd/amdgpu:
// gpu_recover_get, amdgpu_device_gpu_recover). So one file is enough for all. The error is
// os.ErrNotExist if there is none: debugfs is not mounted here, the kernel is locked
// down, or the GPU is a virtual function.
func recoveryFile(sysfs string, gpus []GPU) (string, error) {
	dri := filepath.Join(sysfs, "kernel/debug/dri")
	var places []string
	for _, g := range gpus {
		places = append(places, g.PCIBusID) // newer kernels name the directory by the device
		if g.Card >= 0 {
			places = append(places, strconv.Itoa(g.Card))
		}
	}
	for _, place := range places {
		path := filepath.Join(dri, place, "amdgpu_gpu_recover")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		} else if !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("the driver's recovery in debugfs: %w", err)
		}
	}
	return "", fmt.Errorf("debugfs has no recovery of %s (no amdgpu_gpu_recover in %s/{%s}): mount debugfs, or set reset.method to pci: %w",
		names(gpus), dri, strings.Join(places, ","), os.ErrNotExist)
}

// recoverGPUs reads the file. The read returns after the reset, with 0 or the number of an
// error.
func recoverGPUs(path, who string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reset %s by the driver: %w", who, err)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxAnswer))
	if err = errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("reset %s by the driver: %w", who, err)
	}
	switch answer := strings.TrimSpace(string(text)); answer {
	case "0", "gpu recover": // the latter up to Linux 5.15, also after a failure
		return "the driver's reset of " + who, nil
	default:
		return "", fmt.Errorf("the driver's reset of %s failed with %q: see the kernel log", who, answer)
	}
}
