package hostile

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func stuck() []Misdeed {
	return []Misdeed{
		{
			Name: "stuck-loop", Group: Stuck, What: "is alive, but its watch loop is stuck",
			watch: func(*backend, watchStream) error { select {} },
		},
		{
			Name: "stopped", Group: Stuck, What: "is stopped (SIGSTOP)",
			running: func() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) },
		},
		{
			Name: "deaf", Group: Stuck, What: "is stuck, and deaf to SIGTERM",
			watch: func(*backend, watchStream) error {
				signal.Ignore(syscall.SIGTERM)
				select {}
			},
		},
		{
			Name: "grandchild", Group: Stuck, What: "dies, and a grandchild of its own session holds its stderr open",
			running: func() {
				if err := leaveGrandchild(); err != nil {
					die(8, "the grandchild does not start: "+err.Error())
				}
				die(7, "gone, but for a child")
			},
		},
	}
}

// GrandchildEnv marks the process that is left behind. It ends when the file that it
// names is gone: a test removes it.
const GrandchildEnv = "HOSTILE_GRANDCHILD"

func leaveGrandchild() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	command := exec.Command(self) //nolint:noctx // it is to outlive us
	command.Env = append(os.Environ(), GrandchildEnv+"="+os.Getenv(WhileEnv))
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return command.Start()
}
