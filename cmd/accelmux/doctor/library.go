package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// libraries are those of the vendors' drivers without which a backend cannot read the devices, by the kernel driver. The
// other backends need none.
var libraries = map[string]string{"nvidia": "libnvidia-ml.so.1"}

// libraryDirs are where distributions and driver containers put them, as patterns below the driver's root.
var libraryDirs = []string{
	"usr/lib/*-linux-gnu", "usr/lib/*-linux-gnu/nvidia/current", "usr/lib64", "lib/*-linux-gnu", "lib64", "usr/lib", "usr/local/nvidia/lib64", "usr/lib/wsl/lib",
}

// library stops devices whose driver's library is missing, or of another version than the kernel module. A device that a
// backend lists as healthy has its library.
func library(w *walk) Finding {
	found := map[string]bool{}
	for _, d := range w.devices {
		if d.onBus == nil || libraries[d.onBus.Driver] == "" || d.listed != nil && d.listed.Healthy {
			continue
		}
		name, roots := libraries[d.onBus.Driver], w.driverRoots()
		path := findLibrary(name, roots)
		if missing := notHere(roots); path == "" && missing != "" {
			return Finding{State: NotChecked, Why: missing + ", where the settings have the driver, is not here: in a pod the backend's own container may have it"}
		}
		if path == "" {
			w.stop(d, fmt.Sprintf("the driver %s is loaded, but %s is in none of the usual directories below %s", d.onBus.Driver, name, strings.Join(roots, ", ")),
				"install the driver's libraries, or name their place by the backend's settings edits.driverRoot or library; in a pod, mount it (edits.driverRootMount)")
			continue
		}
		found[path] = true
		version, err := os.ReadFile(filepath.Join(w.Sysfs, "module", d.onBus.Driver, "version"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a module without a version
		} else if err != nil {
			return Finding{State: NotChecked, Why: err.Error()}
		}
		file, err := filepath.EvalSymlinks(path)
		if err != nil {
			return Finding{State: NotChecked, Why: err.Error()}
		}
		is, module := strings.TrimPrefix(filepath.Base(file), strings.TrimSuffix(name, "1")), strings.TrimSpace(string(version))
		if strings.Contains(is, ".") && is != module {
			w.stop(d, fmt.Sprintf("%s is of version %s, and the loaded kernel module %s of version %s", path, is, d.onBus.Driver, module), "reload the kernel module, or reboot the node")
		}
	}
	if len(found) == 0 {
		return Finding{State: OK, Why: "no device lacks one"}
	}
	return Finding{State: OK, Why: listed("found", found)}
}

// driverRoots returns where the settings of the profile's backends have their driver, and the root directory.
func (w *walk) driverRoots() (roots []string) {
	add := func(root string) {
		if root != "" {
			roots = append(roots, filepath.Join(w.Root, root))
		}
	}
	if profile := w.profile(); profile != nil {
		for _, b := range profile.Backends {
			var settings struct {
				Library string `json:"library"`
				Edits   struct {
					DriverRoot      string `json:"driverRoot"`
					DriverRootMount string `json:"driverRootMount"`
				} `json:"edits"`
			}
			if json.Unmarshal(b.Settings, &settings) != nil {
				continue // another backend's, which has fields of its own
			}
			add(settings.Library)
			add(settings.Edits.DriverRootMount)
			add(settings.Edits.DriverRoot)
		}
	}
	add("/")
	return roots
}

// notHere returns the first of the paths that does not exist; "" if all do.
func notHere(paths []string) string {
	for _, path := range paths {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return path
		}
	}
	return ""
}

// findLibrary returns the path of a library that is one of the roots itself, or in a directory below one; "" if there is none.
func findLibrary(name string, roots []string) string {
	for _, root := range roots {
		if info, err := os.Stat(root); err == nil && info.Mode().IsRegular() {
			return root
		}
		for _, dir := range libraryDirs {
			found, _ := filepath.Glob(filepath.Join(root, dir, name)) // the patterns are valid
			for _, path := range found {
				if _, err := os.Stat(path); err == nil {
					return path
				}
			}
		}
	}
	return ""
}
