package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"k8s.io/apimachinery/pkg/util/version"
)

// versionTimeout is the longest time that a program takes to print its version.
const versionTimeout = 5 * time.Second

// Runtime is where the container runtime's CDI support is read.
type Runtime struct {
	// ContainerdConfig and CRIOConfig are the configuration files of the runtimes, and SpecDirs the directories of
	// CDI specs that they read unless these say otherwise.
	ContainerdConfig, CRIOConfig string
	SpecDirs                     []string
	// Version returns what a program, containerd or crio, prints with --version. The error is
	// exec.ErrNotFound if it is not here.
	Version func(program string) (string, error)
}

// Installed returns what a program in $PATH prints with --version, within 5 s and until ctx ends.
func Installed(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, program, "--version") //nolint:gosec // containerd or crio
	command.WaitDelay = time.Second                           // a child may have its output
	text, err := command.Output()
	return string(text), err
}

var semantic = regexp.MustCompile(`\bv?(\d+\.\d+\.\d+)`)

// containerRuntime checks that the container runtime has CDI: containerd from 1.7 with enable_cdi =
// true (the default from 2.0), and that it reads the agent's directory. CRI-O has CDI on in every version that is
// still in use.
func containerRuntime(w *walk) Finding {
	if w.withoutCDI() {
		return Finding{State: OK, Why: "no resource needs CDI"}
	}
	containerd, noContainerd := w.Runtime.Version("containerd")
	crio, noCRIO := w.Runtime.Version("crio")
	switch {
	case noContainerd == nil && noCRIO == nil:
		return Finding{State: NotChecked, Why: "containerd and CRI-O are both here, and it is not known which of them kubelet uses"}
	case noCRIO == nil:
		first, _, _ := strings.Cut(strings.TrimSpace(crio), "\n")
		return w.crioCDI(first)
	case errors.Is(noContainerd, exec.ErrNotFound):
		return Finding{State: NotChecked, Why: "neither containerd nor crio is in $PATH, as in a pod: run doctor on the node"}
	case noContainerd != nil:
		return Finding{State: NotChecked, Why: "`containerd --version`: " + noContainerd.Error()}
	}
	match := semantic.FindStringSubmatch(containerd)
	if match == nil {
		return Finding{State: NotChecked, Why: fmt.Sprintf("containerd prints no version: %q", strings.TrimSpace(containerd))}
	}
	is, err := version.ParseGeneric(match[1])
	if err != nil {
		return Finding{State: NotChecked, Why: err.Error()}
	}
	if !is.AtLeast(version.MajorMinor(1, 7)) {
		return w.stopAll(w.withCDI(), "containerd "+match[1]+" has no CDI", "update containerd to 1.7 or newer, or set injection: plain for the resources")
	}
	return w.containerdCDI(match[1], is.AtLeast(version.MajorMinor(2, 0)))
}

// withCDI returns which devices need CDI; without an agent, all may.
func (w *walk) withCDI() func(*Device) bool {
	if w.Report == nil {
		return every
	}
	return needsCDI
}

// containerdCDI checks containerd's configuration file, and those that it imports.
func (w *walk) containerdCDI(version string, isOn bool) Finding {
	c := cri{isOn: isOn, where: "by default", dirs: w.Runtime.SpecDirs}
	if err := c.read(w.Runtime.ContainerdConfig); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Finding{State: NotChecked, Why: err.Error()}
	}
	switch {
	case !c.isOn:
		return w.stopAll(w.withCDI(), "CDI is off "+c.where+" in containerd "+version,
			"set enable_cdi = true in the CRI plugin's table of "+w.Runtime.ContainerdConfig+" and restart containerd, or set injection: plain for the resources")
	case !w.reads(c.dirs):
		return w.readsOther("containerd", c.dirs)
	}
	return Finding{State: OK, Why: "CDI is on " + c.where + " in containerd " + version}
}

// crioCDI checks CRI-O's configuration file, and those of its directory, which count more; crio.conf(5).
func (w *walk) crioCDI(version string) Finding {
	dirs := w.Runtime.SpecDirs
	more, err := filepath.Glob(w.Runtime.CRIOConfig + ".d/*")
	if err != nil {
		return Finding{State: NotChecked, Why: err.Error()}
	}
	for _, path := range append([]string{w.Runtime.CRIOConfig}, more...) {
		var file struct {
			CRIO struct {
				Runtime struct {
					SpecDirs []string `toml:"cdi_spec_dirs"`
				} `toml:"runtime"`
			} `toml:"crio"`
		}
		text, err := os.ReadFile(path) //nolint:gosec // the runtime's configuration
		if err == nil {
			err = toml.Unmarshal(text, &file)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Finding{State: NotChecked, Why: fmt.Sprintf("%s: %v", path, err)}
		}
		if file.CRIO.Runtime.SpecDirs != nil {
			dirs = file.CRIO.Runtime.SpecDirs
		}
	}
	if !w.reads(dirs) {
		return w.readsOther("CRI-O", dirs)
	}
	return Finding{State: OK, Why: version + ", which has CDI on"}
}

// reads reports whether the agent's directory of CDI specs is among those of the runtime.
func (w *walk) reads(dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return sameDir(dir, w.CDIDir) })
}

func (w *walk) readsOther(runtime string, dirs []string) Finding {
	return w.stopAll(w.withCDI(), fmt.Sprintf("%s reads CDI specs from %s, not from %s", runtime, strings.Join(dirs, " and "), w.CDIDir),
		"name one of them with --cdi-dir of the agent, or add the directory to cdi_spec_dirs and restart "+runtime)
}

// sameDir reports whether two paths are one directory; /var/run is a link to /run.
func sameDir(a, b string) bool {
	short := func(path string) string {
		if path = filepath.Clean(path); strings.HasPrefix(path, "/var/run/") {
			return strings.TrimPrefix(path, "/var")
		}
		return path
	}
	return short(a) == short(b)
}

// cri is what containerd's configuration says of CDI.
type cri struct {
	isOn  bool
	where string
	dirs  []string
}

// criPlugins are the tables with that: of version 1, 2 and 3 of the configuration.
var criPlugins = []string{"cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"}

// read reads a file, and then those that it imports, which count more.
func (c *cri) read(path string) error {
	text, err := os.ReadFile(path) //nolint:gosec // the runtime's configuration
	if err != nil {
		return err
	}
	var file struct {
		Imports []string                  `toml:"imports"`
		Plugins map[string]map[string]any `toml:"plugins"`
	}
	if err := toml.Unmarshal(text, &file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, name := range criPlugins {
		if on, ok := file.Plugins[name]["enable_cdi"].(bool); ok {
			c.isOn, c.where = on, "in "+path
		}
		if dirs, ok := file.Plugins[name]["cdi_spec_dirs"].([]any); ok {
			c.dirs = nil
			for _, dir := range dirs {
				c.dirs = append(c.dirs, fmt.Sprint(dir))
			}
		}
	}
	for _, pattern := range file.Imports {
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(filepath.Dir(path), pattern)
		}
		imported, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("%s: %w", pattern, err)
		}
		for _, other := range imported {
			if other == path {
				continue
			}
			if err := c.read(other); err != nil {
				return err
			}
		}
	}
	return nil
}
