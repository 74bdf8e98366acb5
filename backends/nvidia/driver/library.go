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

// soname is the library's name. The dynamic linker finds the library in the
// directories of distributions.
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

// find returns the library's path in a driver root. For the host's root ("" or "/") it
// returns soname, for the dynamic linker, if the library is in none of the usual
// directories.
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

// loaded is the library that this process has loaded. Once one of its functions was
// called, the dynamic linker never unloads it, despite dlclose, and resolves later
// calls to it even if another library is loaded.
var loaded struct {
	sync.Mutex
	lib *library
}

// library is a loaded libnvidia-ml.
type library struct {
	nvml.Interface
	path string
	file os.FileInfo // nil if the dynamic linker found it
}

// load returns the library at a path; its Init loads it. A library that is loaded stays in
// use, even if its file was removed or replaced: its Init reports whether it still fits the
// driver. The error is ErrRestart if the loaded file is still in place and the settings
// chose another path.
func load(path string) (nvml.Interface, error) {
	file, err := os.Stat(path)
	if err != nil && path != soname {
		return nil, fmt.Errorf("%w: %w", ErrNoLibrary, err)
	}
	loaded.Lock()
	defer loaded.Unlock()
	switch have := loaded.lib; {
	case have == nil:
		return &library{Interface: nvml.New(nvml.WithLibraryPath(path)), path: path, file: file}, nil
	case file != nil && have.file != nil && !os.SameFile(file, have.file) && have.inPlace():
		return nil, fmt.Errorf("%w (loaded is %s, now it is at %s)", ErrRestart, have.path, path)
	default:
		return have, nil
	}
}

// inPlace reports whether the loaded file is still at its path.
func (l *library) inPlace() bool {
	now, err := os.Stat(l.path)
	return err == nil && os.SameFile(now, l.file)
}

// replaced returns ErrRestart if the library at the path is not the one that this process
// has loaded.
func replaced(path string) error {
	file, err := os.Stat(path)
	loaded.Lock()
	defer loaded.Unlock()
	if have := loaded.lib; have == nil || have.file == nil || err != nil || os.SameFile(file, have.file) {
		return nil
	}
	return fmt.Errorf("%w (at %s)", ErrRestart, path)
}

// Init loads and initialises the library.
func (l *library) Init() nvml.Return {
	ret := l.Interface.Init()
	if ret != nvml.ERROR_LIBRARY_NOT_FOUND {
		loaded.Lock()
		loaded.lib = l
		loaded.Unlock()
	}
	return ret
}
