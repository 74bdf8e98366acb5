package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// process is a started program with its process group.
type process struct {
	cmd    *exec.Cmd
	output *output
	log    *logReader
	exited chan struct{} // closed when it is reaped
	// helper is this process's end of the socket to the helper; nil without a helper.
	helper *os.File
	// report is what is in force of its sandbox.
	report sandbox.Report
}

// handshakeEnv returns the environment variables of the handshake.
func handshakeEnv(dir, certificate string) []string {
	return []string{
		backendplugin.CookieKey + "=" + backendplugin.CookieValue,
		fmt.Sprintf("PLUGIN_PROTOCOL_VERSIONS=%d", backendplugin.ProtocolVersion),
		backendplugin.SocketDirKey + "=" + dir,
		backendplugin.ClientCertKey + "=" + certificate,
	}
}

// noSandbox is the sandbox of programs that have none.
var noSandbox = sandbox.Sandbox{Policy: sandbox.Policy{Mode: sandbox.Off}}

// launch starts the program in a process group of its own, in the sandbox, or below a helper if mode is
// not "". The kernel kills it if this process dies.
func launch(program, mode string, env []string, box sandbox.Sandbox) (*process, error) {
	out, outChild, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	errs, errsChild, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe: %w", err), out.Close(), outChild.Close())
	}
	p := &process{
		cmd: &exec.Cmd{
			Path: program, Args: []string{program}, Env: env, Dir: "/", Stdout: outChild, Stderr: errsChild,
			SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
		},
		exited: make(chan struct{}),
	}
	ends := []*os.File{outChild, errsChild}
	if mode != "" {
		own, other, err := socketPair()
		if err != nil {
			return nil, errors.Join(err, out.Close(), outChild.Close(), errs.Close(), errsChild.Close())
		}
		p.cmd.Path, p.cmd.Args, p.cmd.ExtraFiles = "/proc/self/exe", []string{helperName, mode, program}, []*os.File{other}
		p.helper, ends = own, append(ends, other)
	}
	start, err := box.Prepare(p.cmd)
	if err != nil {
		return nil, errors.Join(err, out.Close(), outChild.Close(), errs.Close(), errsChild.Close())
	}
	started := make(chan error, 1)
	go p.live(start, started)
	err = <-started
	for _, end := range ends {
		err = errors.Join(err, end.Close())
	}
	if err != nil {
		p.close()
		return nil, errors.Join(err, out.Close(), errs.Close())
	}
	p.output, p.log = readOutput(out), readLog(errs)
	return p, nil
}

// live starts the program and reaps it. The goroutine stays locked to its thread: the kernel
// sends the parent-death signal when the thread that started the process ends.
func (p *process) live(start *sandbox.Start, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.exited)
	if err := p.cmd.Start(); err != nil {
		start.Close()
		started <- err
		return
	}
	report, err := start.Wait() // if it fails, the process ends
	p.report = report
	started <- err
	pid := p.cmd.Process.Pid
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	// While the leader is a zombie, its process group ID cannot be reused.
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	_ = p.cmd.Wait() // the result is in ProcessState
}

// signal sends a signal to the process group, unless the ID may have been reused.
func (p *process) signal(signal syscall.Signal) {
	select {
	case <-p.exited:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, signal)
	}
}

// ended reports whether the process ends within the limit.
func (p *process) ended(ctx context.Context, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// kill kills the process group and releases its resources.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
	p.output.close()
	p.log.close()
	p.close()
}

func (p *process) close() {
	if p.helper != nil {
		_ = p.helper.Close()
	}
}

// ending describes how the process ended and its last log lines; "" while it runs.
func (p *process) ending() string {
	select {
	case <-p.exited:
	default:
		return ""
	}
	text := "it exited: " + p.cmd.ProcessState.String()
	if tail := p.log.last(); tail != "" {
		text += "; its last log lines: " + tail
	}
	return text
}

// programError returns an error if the path is not that of an executable program.
func programError(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("program %s does not exist: give the path of a backend's executable", path)
	case err != nil:
		return fmt.Errorf("find the program %s: %w", path, err)
	case info.IsDir():
		return fmt.Errorf("%s is a directory: give the path of a backend's executable", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file: give the path of a backend's executable", path)
	case unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS) != nil:
		return fmt.Errorf("the program %s may not be executed (mode %04o): run chmod a+x %s", path, info.Mode().Perm(), path)
	}
	return nil
}

func socketPair() (own, other *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "helper"), os.NewFile(uintptr(fds[1]), "helper"), nil
}

// words joins a list for a message, and shortens it.
func words(list []string) string {
	const most = 3
	if more := len(list) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), more)
	}
	return strings.Join(list, ", ")
}
