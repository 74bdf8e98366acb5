package agent

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// rootEnv marks every process of one agent, its backends too: the configuration
// hands it on to them. By it they are found even when their parent is gone.
const rootEnv = "KUBELET_TEST_ROOT"

// Process is a process that belongs to the agent.
type Process struct {
	PID     int
	Command string
}

// Processes lists the processes that the agent started, in no order; the agent
// itself is not among them.
func (a *Agent) Processes() ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	mark := []byte(rootEnv + "=" + a.root + "\x00")
	var out []Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == a.PID() {
			continue
		}
		// A process may end while we look, and others' are not ours to read. A
		// zombie has an empty environment: it is gone but for its parent's wait.
		environ, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		if err != nil || !bytes.Contains(append(environ, 0), mark) {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		out = append(out, Process{PID: pid, Command: strings.TrimSpace(strings.ReplaceAll(string(cmdline), "\x00", " "))})
	}
	return out, nil
}

// Leftovers lists what should not be there after the agent ended, a line each:
// processes, sockets (but for kubelet's own), temporary files, CDI specs. Specs
// are allowed if the agent must keep them for containers that still run.
func (a *Agent) Leftovers(specsHeld bool) ([]string, error) {
	var out []string
	processes, err := a.Processes()
	if err != nil {
		return nil, err
	}
	for _, p := range processes {
		out = append(out, fmt.Sprintf("process %d: %s", p.PID, p.Command))
	}
	err = filepath.WalkDir(a.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if line := a.leftover(path, d, specsHeld); line != "" {
			out = append(out, line)
		}
		return nil
	})
	return out, err
}

// leftover says what is wrong with a file, or "".
func (a *Agent) leftover(path string, d fs.DirEntry, specsHeld bool) string {
	name := d.Name()
	in := func(dir string) bool { return strings.HasPrefix(path, dir+string(filepath.Separator)) }
	switch {
	case d.Type()&fs.ModeSocket != 0:
		if name == "kubelet.sock" && in(a.KubeletDir()) {
			return ""
		}
		return "socket " + path
	case in(a.tempDir()):
		return "temporary file " + path
	case d.IsDir():
		return ""
	case in(a.CDIDir()) && filepath.Ext(name) != ".json" && filepath.Ext(name) != ".yaml":
		return "a file that is no CDI spec: " + path
	case in(a.CDIDir()) && !specsHeld:
		return "CDI spec that nobody holds: " + path
	case in(a.StateDir()) && (strings.HasPrefix(name, ".") || strings.Contains(name, "tmp")):
		return "temporary file " + path
	}
	return ""
}
