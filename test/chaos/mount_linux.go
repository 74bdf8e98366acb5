package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// diskSize is the size of each of the node's disks, one for the directories of state and
// CDI specs, one for kubelet's and those that agents run in; diskFiles is how many files
// fit on it.
const (
	diskSize  = "512k"
	diskFiles = "1000"
)

func mountDisk(dir string) error {
	if err := unix.Mount("chaos", dir, "tmpfs", 0, "size="+diskSize+",nr_inodes="+diskFiles+",mode=0755"); err != nil {
		return fmt.Errorf("mount a small disk: %w", err)
	}
	return nil
}

func unmountDisk(dir string) error {
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount the small disk: %w", err)
	}
	return nil
}

// bindReadOnly makes a directory a mount of its own, read-only.
func bindReadOnly(dir string) error {
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", dir, err)
	}
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return errors.Join(fmt.Errorf("make %s read-only: %w", dir, err), unmountDisk(dir))
	}
	return nil
}

// ownMounts says whether this process has mounts of its own, see inOwnMounts.
const ownMounts = "ACCELMUX_CHAOS_MOUNTS"

// inOwnMounts runs this program again where its mounts are seen by nobody else and go
// with it, and returns its exit code. It is not possible without root: then done is
// false, and why says so.
func inOwnMounts() (code int, done bool, why string) {
	self, err := os.Executable()
	if err != nil {
		return 0, false, err.Error()
	}
	runtime.LockOSThread() // for the parent-death signal
	defer runtime.UnlockOSThread()
	command := &exec.Cmd{
		Path: self, Args: os.Args, Env: append(os.Environ(), ownMounts+"=1"),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGTERM},
	}
	// Who asked for the end gets the prompt back when all is cleared up, and not before.
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(ends)
	if err := command.Start(); err != nil {
		return 0, false, "no mounts of its own: " + err.Error()
	}
	ended := make(chan error)
	go func() { ended <- command.Wait() }()
	for waiting := true; waiting; {
		select {
		case s := <-ends:
			_ = command.Process.Signal(s) // one that has ended needs none
		case err = <-ended:
			waiting = false
		}
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 1, true, err.Error()
	}
	return command.ProcessState.ExitCode(), true, ""
}
