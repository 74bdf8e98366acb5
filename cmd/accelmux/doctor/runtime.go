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
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
)

// versionTimeout is the longest time that a program takes to print its version.
const versionTimeout = 5 * time.Second

// Runtime is where the container runtime's CDI support is read.
type Runtime struct {
	// ContainerdConfig is containerd's configuration file.
	ContainerdConfig string
	// Version returns what a program, containerd or crio, prints with --version. The error is
	// exec.ErrNotFound if it is not here.
	Version func(program string) (string, error)
}

// Installed returns what a program in $PATH prints with --version.
func Installed(program string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), versionTimeout)
	defer cancel()
	text, err := exec.CommandContext(ctx, program, "--version").Output() //nolint:gosec // containerd or crio
	return string(text), err
}

var (
	semantic  = regexp.MustCompile(`\bv?(\d+\.\d+\.\d+)`)
	enableCDI = regexp.MustCompile(`(?m)^\s*enable_cdi\s*=\s*(true|false)\b`)
	imports   = regexp.MustCompile(`(?ms)^\s*imports\s*=\s*\[(.*?)\]`)
	quoted    = regexp.MustCompile(`["']([^"']+)["']`)
)

// containerRuntime checks that the container runtime has CDI: containerd from 1.7 with enable_cdi =
// true (the default from 2.0), or CRI-O, which has it on.
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
		return Finding{State: OK, Why: first + ", which has CDI on"}
	case errors.Is(noContainerd, exec.ErrNotFound):
		return Finding{State: NotChecked, Why: "neither containerd nor crio is in $PATH here (in a pod they never are): run doctor on the node"}
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
	file := w.Runtime.ContainerdConfig
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Finding{State: NotChecked, Why: err.Error()}
	}
	where := "by default"
	read := func(path string, text []byte) {
		for _, match := range enableCDI.FindAllSubmatch(text, -1) {
			isOn, where = string(match[1]) == "true", "in "+path
		}
	}
	read(file, text)
	if list := imports.FindSubmatch(text); list != nil {
		for _, pattern := range quoted.FindAllSubmatch(list[1], -1) {
			at := string(pattern[1])
			if !filepath.IsAbs(at) {
				at = filepath.Join(filepath.Dir(file), at)
			}
			paths, err := filepath.Glob(at)
			if err != nil {
				return Finding{State: NotChecked, Why: at + ": " + err.Error()}
			}
			for _, path := range paths {
				text, err := os.ReadFile(path) //nolint:gosec // named by the runtime's configuration
				if err != nil {
					return Finding{State: NotChecked, Why: err.Error()}
				}
				read(path, text)
			}
		}
	}
	if !isOn {
		return w.stopAll(w.withCDI(), "CDI is off "+where+" in containerd "+version,
			"set enable_cdi = true in the CRI plugin's table of "+file+" and restart containerd, or set injection: plain for the resources")
	}
	return Finding{State: OK, Why: "CDI is on " + where + " in containerd " + version}
}
