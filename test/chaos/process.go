package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// dirEnv names the variable by which processes of a node are known.
const dirEnv = "ACCELMUX_CHAOS"

// process is one agent's process.
type process struct {
	pid    int
	runDir string
	done   chan struct{}
	state  *os.ProcessState // once done is closed
}

// directories are those of an agent that it does not share with every other one.
type directories struct{ run, state, cdi string }

// start starts a process of an agent, with a directory of its own for it to run in, with or
// without --take-over. It dies with this one.
func (w *world) start(runDir string, takeOver bool) (*process, error) {
	return w.startIn(directories{run: runDir, state: w.path("disk", "state"), cdi: w.path("disk", "cdi")}, takeOver)
}

// startIn is start for an agent whose directories may be others.
func (w *world) startIn(d directories, takeOver bool) (*process, error) {
	args := []string{
		w.agent, "run", "--config", w.path("node.yaml"), "--node-name", nodeName, "--kubeconfig", w.path("kubeconfig"),
		"--kubelet-dir", w.kubeletDir(), "--cdi-dir", d.cdi, "--state-dir", d.state, "--run-dir", d.run,
		"--backend-dir", w.path("programs"), "--procfs", w.path("proc"), "--log-level", "debug",
	}
	if w.hardware != "" {
		args = append(args, "--sysfs", w.hardware+"/sys", "--devfs", w.hardware+"/dev")
	}
	if takeOver {
		args = append(args, "--take-over")
	}
	command := &exec.Cmd{
		Path: w.agent, Args: args, Stdout: w.log, Stderr: w.log,
		Env:         append(os.Environ(), dirEnv+"="+w.dir),
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	}
	p := &process{runDir: d.run, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The parent-death signal is that of this thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		if err == nil {
			p.pid = command.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}
		var exit *exec.ExitError
		if err := command.Wait(); err != nil && !errors.As(err, &exit) {
			fmt.Fprintln(os.Stderr, "wait for an agent:", err)
		}
		p.state = command.ProcessState
		close(p.done)
	}()
	return p, <-started
}

func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *process) signal(s syscall.Signal) error {
	if !p.alive() {
		return nil
	}
	if err := syscall.Kill(p.pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal the agent: %w", err)
	}
	return nil
}

// task is a process of the node as proc(5) shows it.
type task struct {
	PID, Parent int
	State       string // R, S, T, Z ...
	Name        string
}

// tasks are the processes of the node in dir: those that have the directory in their
// environment or whose parent has. A zombie's environment is empty.
func tasks(dir string) []task {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	all, ours := map[int]task{}, map[int]bool{}
	for _, path := range dirs {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil || pid == os.Getpid() {
			continue
		}
		t, ok := readTask(pid)
		if !ok {
			continue
		}
		all[pid] = t
		environment, err := os.ReadFile(path + "/environ")
		if err == nil && bytes.Contains(environment, []byte(dir+"/")) || bytes.Contains(environment, []byte(dirEnv+"="+dir+"\x00")) {
			ours[pid] = true
		}
	}
	var found []task
	for pid, t := range all {
		if ours[pid] || ours[t.Parent] {
			found = append(found, t)
		}
	}
	slices.SortFunc(found, func(a, b task) int { return a.PID - b.PID })
	return found
}

func readTask(pid int) (task, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return task{}, false
	}
	// The name is in parentheses and may hold anything.
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return task{}, false
	}
	fields := strings.Fields(string(text[end+1:]))
	if len(fields) < 2 {
		return task{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	return task{PID: pid, Parent: parent, State: fields[0], Name: string(text[open+1 : end])}, err == nil
}

// descriptors is how many files a process has open; 0 if it is gone.
func descriptors(pid int) int {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0
	}
	return len(entries)
}
