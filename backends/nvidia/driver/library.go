package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// soname is the library's name; the dynamic linker knows where it is, if it is
// where distributions put it.
const soname = "libnvidia-ml.so.1"

// directories are where distributions and driver containers put the library,
// relative to the driver's root; %s is the machine's name in Debian's terms.
var directories = []string{
	"usr/lib/%s-linux-gnu",
	"usr/lib/%s-linux-gnu/nvidia/current",
	"usr/lib64",
	"lib/%s-linux-gnu",
	"lib64",
	"usr/lib",
	"usr/local/nvidia/lib64",
	"usr/lib/wsl/lib",
}

// find is the library's path in a driver root. For the host's own root, "" or
// "/", it is the bare name, left to the dynamic linker, if it is in none of the
// usual places.
func find(root string) (string, error) {
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	for _, dir := range directories {
		if strings.Contains(dir, "%s") {
			dir = fmt.Sprintf(dir, machine)
		}
		path := filepath.Join("/", root, dir, soname)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	if filepath.Join("/", root) == "/" {
		return soname, nil
	}
	return "", fmt.Errorf("%w: looked for it in the usual directories under %s, such as %s; "+
		"is the driver installed there?", ErrNoLibrary, root, filepath.Join("/", root, "usr/lib64"))
}

// loaded is the library that this process has loaded. The dynamic linker keeps
// it for good once a function of it was bound, whatever dlclose is told, and
// later calls go to the first one.
var loaded struct {
	sync.Mutex
	path string
	info os.FileInfo
	lib  nvml.Interface
}

// load is the real library. It is loaded by its Init. Asking for the same file
// again yields the same library, for another ErrRestart.
func load(path string) (nvml.Interface, error) {
	loaded.Lock()
	defer loaded.Unlock()
	info, err := os.Stat(path)
	if err != nil && path != soname {
		return nil, fmt.Errorf("%w: %w", ErrNoLibrary, err)
	}
	if loaded.lib == nil || loaded.lib.Extensions().LookupSymbol("nvmlInit_v2") != nil {
		// None yet, or one that could not be loaded.
		loaded.path, loaded.info = path, info
		loaded.lib = nvml.New(nvml.WithLibraryPath(path))
		return loaded.lib, nil
	}
	if (path == soname) == (loaded.path == soname) && (path == soname || os.SameFile(info, loaded.info)) {
		return loaded.lib, nil
	}
	return nil, fmt.Errorf("%w (loaded was %s, now it is %s)", ErrRestart, loaded.path, path)
}
