package realkubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os/exec"
	"syscall"
	"time"

	"github.com/accelmux/accelmux/test/kubelet/wire"
)

const (
	// startLimit bounds how long kubelet takes to be up: busy machines are slow.
	startLimit = 2 * time.Minute
	// stopLimit is how long it may take to end after SIGTERM: longer than the program
	// gives itself.
	stopLimit = 90 * time.Second
)

// process is one running kubelet.
type process struct {
	cmd    *exec.Cmd
	client *rpc.Client
	about  wire.About
}

// spawn starts a process and the kubelet in it.
func spawn(program string, log io.Writer, opts wire.Options) (*process, error) {
	// No context: the process ends with stop or kill, or with its input, which is
	// ours.
	cmd := exec.CommandContext(context.Background(), program)
	cmd.Stderr = log
	// A group of its own: a signal to the test's group must not reach it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start kubelet: %w", err)
	}
	p := &process{cmd: cmd}
	p.client = jsonrpc.NewClient(pipes{Reader: out, WriteCloser: in})
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if err := p.call(ctx, "Start", opts, &p.about); err != nil {
		return nil, errors.Join(fmt.Errorf("start kubelet: %w", err), p.kill())
	}
	return p, nil
}

// pipes are the process's standard input and output.
type pipes struct {
	io.Reader
	io.WriteCloser
}

// call asks the process and waits for the answer, but not longer than ctx.
func (p *process) call(ctx context.Context, method string, request, answer any) error {
	call := p.client.Go(wire.Service+"."+method, request, answer, make(chan *rpc.Call, 1))
	select {
	case <-ctx.Done():
		return fmt.Errorf("kubelet has not answered %s: %w", method, ctx.Err())
	case <-call.Done:
		if call.Error != nil && !errors.As(call.Error, new(rpc.ServerError)) {
			return fmt.Errorf("kubelet is gone: %w", call.Error)
		}
		return call.Error
	}
}

// stop sends SIGTERM and waits for the end.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return errors.Join(fmt.Errorf("signal kubelet: %w", err), p.kill())
	}
	limit := time.AfterFunc(stopLimit, func() { _ = p.cmd.Process.Kill() })
	defer limit.Stop()
	err := p.cmd.Wait()
	_ = p.client.Close() // the other end is gone
	if err != nil {
		return fmt.Errorf("kubelet's end after SIGTERM: %w", err)
	}
	return nil
}

// kill sends SIGKILL and waits for the process to be gone.
func (p *process) kill() error {
	err := p.cmd.Process.Kill()
	_ = p.cmd.Wait() // that it was killed is known
	_ = p.client.Close()
	return err
}
