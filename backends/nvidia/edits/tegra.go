package edits

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/NVIDIA/go-nvlib/pkg/nvlib/info"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"

	"github.com/accelmux/accelmux/backends/sdk"
)

// csvFiles list the device nodes and files of a Tegra's GPU, a line each ("dev, /dev/nvmap").
// Packages of the system install them; see "CSV files" in
// https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/.
const csvFiles = "etc/nvidia-container-runtime/host-files-for-container.d/*.csv"

// tegra returns what a container gets with the GPU of a Tegra: all that the system's files list.
// Files and nodes that do not exist are left out, as NVIDIA's own tools do, because one list
// serves several models.
func (w *work) tegra() (out *sdk.Edits, err error) {
	pattern := filepath.Join(w.at.root.here, csvFiles)
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("there are no files %s, which list the files of a Tegra's GPU: install the packages of the system that have them", pattern)
	}
	err = guard(func() error {
		lib, err := w.nvcdi(nvcdi.ModeCSV, nvcdi.WithCSVFiles(files), nvcdi.WithInfoLib(withoutNVML{}))
		if err != nil {
			return err
		}
		common, err := lib.GetCommonEdits()
		if err != nil {
			return err
		}
		if out, err = w.at.convert(common.ContainerEdits, w.problem); err != nil {
			return err
		}
		devices, err := lib.GetDeviceSpecsByID("0")
		for i := range devices {
			own, err := w.at.convert(&devices[i].ContainerEdits, w.problem)
			if err != nil {
				return err
			}
			out = merge(own, out)
		}
		return err
	})
	switch {
	case err != nil:
	case len(out.GetDeviceNodes()) == 0:
		err = errors.New("none of their device nodes exists")
	case !hasLibrary(out):
		err = errors.New("libcuda.so is not there")
	}
	if err != nil {
		return nil, fmt.Errorf("files of a Tegra's GPU by %s: %w", pattern, err)
	}
	options, err := w.options()
	return merge(append([]*sdk.Edits{out}, options...)...), err
}

// withoutNVML keeps nvcdi from calling NVML, so that it assumes a single GPU and adds no
// hook for newer CUDA libraries.
type withoutNVML struct{ info.Interface }

func (withoutNVML) HasNvml() (bool, string) { return false, "the GPU is known already" }
