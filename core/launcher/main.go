package launcher

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/accelmux/accelmux/core/sandbox"
)

// init turns a process that the sandbox has started for a program in another container into the relay, as package
// sandbox's does with the shim.
func init() {
	if len(os.Args) == 1 && os.Args[0] == sandbox.RelayName {
		sandbox.Replace(relayMain)
	}
}

// relayMain has the program started in another container, and ends as the program ends there. It returns only an error.
func relayMain(plan, messages *os.File) error {
	var p sandbox.Elsewhere
	if err := json.NewDecoder(plan).Decode(&p); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	_ = plan.Close() // read only
	runs := false
	status, err := Relay(p.Launcher, Start{Program: p.Program, Env: os.Environ(), Sandbox: p.Sandbox}, func(message json.RawMessage) {
		_, _ = messages.Write(message) // an agent that has ended reads none
		runs = true
	})
	if err != nil {
		if runs {
			_ = messages.Close() // so that the error is in the backend's log: it is no failure of the start
		}
		return sandbox.ExecError{Err: err}
	}
	EndLike(status)
	return nil
}
