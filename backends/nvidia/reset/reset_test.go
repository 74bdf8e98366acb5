package reset

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/reset"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/test/sysroot"
)

func means(t *testing.T, s Settings, root string) *Means {
	t.Helper()
	return NewMeans(s, root, sdk.HostPaths{Sysfs: t.TempDir(), Procfs: t.TempDir()})
}

// The tool is searched in the driver's root, and runs with that as its root directory.
func TestToolInDriverRoot(t *testing.T) {
	files := sysroot.NewFiles(t)
	files.Program("usr/bin/nvidia-smi", "")
	root := files.Root
	smi := means(t, Settings{}, root).smi()
	if path, err := smi.Find(); err != nil || path != "/usr/bin/nvidia-smi" || smi.Root != root {
		t.Fatalf("nvidia-smi is at %q in %s, %v", path, smi.Root, err)
	}
	smi = means(t, Settings{Tool: "/opt/smi"}, root).smi()
	if path, err := smi.Find(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nvidia-smi is at %q, %v, though settings have it elsewhere", path, err)
	}
}

// The settings choose the method; none takes the place of a missing tool, as the core looks only before the PCI reset.
func TestMethods(t *testing.T) {
	gpus := []GPU{{UUID: "GPU-a", PCIBusID: "0000:10:00.0"}}
	for method, want := range map[Method]string{
		Never: ErrNever.Error(), "": "reset.method: pci has the kernel reset GPUs", Tool: "nvidia-smi is not", PCI: "GPU GPU-a by PCI: the kernel has no reset for it",
	} {
		_, err := means(t, Settings{Method: method}, t.TempDir()).Reset(t.Context(), reset.NewRunner(), gpus)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", method, err, want)
		}
	}
}
