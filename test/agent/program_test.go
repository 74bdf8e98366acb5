package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/test/patience"
)

// program is an agent in a process of its own.
type program struct {
	*node
	command *exec.Cmd
	runDir  string
	client  *status.Client
	// ended is closed when the process is over; err says how then.
	ended chan struct{}
	err   error
}

// command is `accelmux run` as it is on a node, but for kubelet's directory, which may be named from
// where the agent is started, as the others may.
func (n *node) command(runDir string, more ...string) *exec.Cmd {
	n.Helper()
	here, err := os.Getwd()
	if err != nil {
		n.Fatal(err)
	}
	kubelet, err := filepath.Rel(here, n.path("kubelet"))
	if err != nil {
		n.Fatal(err)
	}
	command := exec.Command(filepath.Join(built.Dir(n.T), "accelmux"), append([]string{
		"run", "--config", n.path("node.yaml"), "--node-name", "node-1", "--kubelet-dir", kubelet, "--cdi-dir", n.path("cdi"),
		"--state-dir", n.path("state"), "--run-dir", n.path(runDir), "--backend-dir", built.Dir(n.T), "--procfs", n.path("proc"), "--log-level", "debug",
	}, more...)...)
	command.Stdout, command.Stderr = &n.log, &n.log
	return command
}

// newProgram is one that is not started yet.
func (n *node) newProgram(runDir string, command *exec.Cmd) *program {
	dir := n.path(runDir)
	return &program{node: n, command: command, runDir: dir, client: status.NewClient(dir), ended: make(chan struct{})}
}

// startProgram starts `accelmux run`.
func (n *node) startProgram(runDir string, more ...string) *program {
	n.Helper()
	p := n.newProgram(runDir, n.command(runDir, more...))
	p.start()
	return p
}

// start starts it; it is killed at the end of the test if it runs then.
func (p *program) start() {
	p.Helper()
	p.begin()
	p.Cleanup(func() { p.signal(syscall.SIGKILL) })
}

// serve starts it as the node's agent, which has to end well.
func (p *program) serve() {
	p.Helper()
	p.begin()
	p.stop = func() {
		if p.signal(syscall.SIGTERM); p.over() && p.err != nil {
			p.Errorf("the agent ended with: %v", p.err)
		}
	}
}

func (p *program) begin() {
	p.Helper()
	if err := p.command.Start(); err != nil {
		p.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		p.err = p.command.Wait()
	}()
}

// pid is the process's, once it is started.
func (p *program) pid() int { return p.command.Process.Pid }

func (p *program) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// signal ends the process and waits for that.
func (p *program) signal(s syscall.Signal) {
	p.Helper()
	_ = p.command.Process.Signal(s) // it may be over
	if !patience.Within(patience.Long, p.over) {
		_ = p.command.Process.Kill()
		p.Errorf("the agent at %s did not end within %v of signal %v", p.runDir, patience.Long, s)
	}
}

// report is the agent's, empty while it does not answer.
func (p *program) report() status.Report {
	report, err := p.client.Report(p.Context())
	if err != nil {
		return status.Report{}
	}
	return report
}

// backend is what the agent says of it.
func (p *program) backend(name string) status.Backend {
	for _, b := range p.report().Backends {
		if b.Name == name {
			return b
		}
	}
	return status.Backend{}
}

// problems are those of status, a line each.
func (p *program) problems() []string { return sentences(p.report()) }

// sentences are a report's problems, a line each.
func sentences(report status.Report) []string {
	var lines []string
	for _, problem := range report.Problems {
		lines = append(lines, fmt.Sprintf("%s %s %s: %s", problem.Backend, problem.Resource, problem.Device, problem.Message))
	}
	return lines
}

// eventually waits until the condition holds; what says what did not happen.
func (p *program) eventually(what string, condition func() bool) {
	p.Helper()
	if !patience.Within(patience.Long, condition) {
		p.Fatalf("%s: not within %v\n%s\n%+v", what, patience.Long, strings.Join(p.problems(), "\n"), p.report().Backends)
	}
}
