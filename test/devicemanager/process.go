package devicemanager

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

	v1 "k8s.io/api/core/v1"

	"github.com/accelmux/accelmux/test/devicemanager/wire"
)

const (
	// startLimit bounds how long kubelet takes to be up: busy machines are slow.
	startLimit = 2 * time.Minute
	// stopLimit is how long it may take to end after SIGTERM: longer than the program
	// gives itself.
	stopLimit = 90 * time.Second
)

// Process is one running kubelet. What it is asked may be asked from any goroutine;
// a call's error is that of the process as a sentence, or the context's.
type Process struct {
	cmd    *exec.Cmd
	client *rpc.Client
	about  wire.About
}

// Start starts the program and the kubelet in it, and returns when its pods of before
// are admitted again. What it logs goes to log; nil discards. The process ends with
// this one.
func Start(program string, log io.Writer, opts wire.Options) (*Process, error) {
	// No context: the process ends with Stop or Kill, or with its input, which is
	// ours.
	cmd := exec.CommandContext(context.Background(), program)
	cmd.Stderr = log
	// A group of its own: a signal to our group must not reach it.
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
	p := &Process{cmd: cmd, client: jsonrpc.NewClient(pipes{Reader: out, WriteCloser: in})}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if err := p.Call(ctx, "Start", opts, &p.about); err != nil {
		return nil, errors.Join(fmt.Errorf("start kubelet: %w", err), p.Kill())
	}
	return p, nil
}

// pipes are the process's standard input and output.
type pipes struct {
	io.Reader
	io.WriteCloser
}

// About is what the program said when it started.
func (p *Process) About() wire.About { return p.about }

// Stop ends the kubelet by SIGTERM: streams to plugins break, the registration socket
// goes, the checkpoint stays. The Process is of no more use.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return errors.Join(fmt.Errorf("signal kubelet: %w", err), p.Kill())
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

// Kill ends the kubelet by SIGKILL: its sockets stay, and nobody answers on them.
func (p *Process) Kill() error {
	err := p.cmd.Process.Kill()
	_ = p.cmd.Wait() // that it was killed is known
	_ = p.client.Close()
	return err
}

// Admit admits a pod, which is on the node then; without an admission it is not.
func (p *Process) Admit(ctx context.Context, pod *v1.Pod) (wire.Verdict, error) {
	var v wire.Verdict
	err := p.Call(ctx, "Admit", pod, &v)
	return v, err
}

// StartContainer is what the device manager does for a container that is about to
// start; id is the container's own, as a container runtime gives it.
func (p *Process) StartContainer(ctx context.Context, pod, name, id string) error {
	var settings map[string]any
	return p.Call(ctx, "StartContainer", wire.Container{Pod: pod, Name: name, ID: id}, &settings)
}

// RemovePod takes a pod off the node. As in kubelet its devices are freed when the
// device manager next looks: at an admission or a pod-resources List.
func (p *Process) RemovePod(ctx context.Context, pod string) error {
	return p.Call(ctx, "RemovePod", pod, &wire.Nothing{})
}

// Devices are the IDs of those that a container was given, sorted, by resource.
func (p *Process) Devices(ctx context.Context, pod, name string) (map[string][]string, error) {
	var held map[string][]wire.Device
	if err := p.Call(ctx, "Devices", wire.Container{Pod: pod, Name: name}, &held); err != nil {
		return nil, err
	}
	ids := map[string][]string{}
	for resource, devices := range held {
		for _, d := range devices {
			ids[resource] = append(ids[resource], d.ID)
		}
	}
	return ids, nil
}

// Resources is what kubelet knows of each resource at one moment.
func (p *Process) Resources(ctx context.Context) (map[string]wire.Resource, error) {
	var all map[string]wire.Resource
	err := p.Call(ctx, "Resources", wire.Nothing{}, &all)
	return all, err
}

// Call asks the process for a method of package wire, and waits for the answer, but not longer
// than ctx.
func (p *Process) Call(ctx context.Context, method string, request, answer any) error {
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
