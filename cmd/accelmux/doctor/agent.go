package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/accelmux/accelmux/core/status"
)

// configuration checks the file, and which profile the agent has in force.
func configuration(w *walk) Finding {
	switch {
	case w.Report == nil && errors.Is(w.ConfigErr, fs.ErrNotExist):
		return w.stopAll(every, "there is no configuration file "+w.ConfigPath, "`accelmux discover` prints one for this machine; name another file with --config")
	case w.ConfigErr != nil:
		return w.stopAll(func(*Device) bool { return w.Report == nil }, w.ConfigErr.Error(), "correct the file; `accelmux validate "+w.ConfigPath+"` checks it")
	case w.Report == nil:
		return Finding{State: OK, Why: w.ConfigPath + " is valid; its backends check their settings when they run"}
	}
	c := w.Report.Config
	switch {
	case c.Profile == "" && c.Refused == "" && c.Unchosen == "" && len(w.Report.NotReady) == 0:
		return w.stopAll(every, "no profile is for this node: "+c.Reason, "label the node, or change the nodeSelector of a profile, if its devices are to be served")
	case c.Refused != "":
		why := fmt.Sprintf("the newest configuration is refused since %s: %s", c.RefusedSince.Format(time.RFC3339), c.Refused)
		return w.stopAll(func(*Device) bool { return c.Profile == "" }, why, "correct "+c.Path)
	case c.Unchosen != "":
		return w.stopAll(func(*Device) bool { return c.Profile == "" }, "no profile can be chosen: "+c.Unchosen, "correct "+c.Path+" or the node's labels")
	case c.Profile == "":
		return w.stopAll(every, "no profile is in force: "+c.Reason, "`accelmux status` shows what the agent waits for")
	}
	return Finding{State: OK, Why: "profile " + c.Profile + " of " + c.Path}
}

// agent checks that an active agent answers: without one nothing reaches a pod.
func agent(w *walk) Finding {
	switch {
	case w.Report == nil:
		return w.stopAll(every, w.AgentErr.Error(), "if one was started, `journalctl -u accelmux` or `kubectl logs` of its pod shows why it ended")
	case w.Report.Role == status.RoleStandby:
		return w.stopAll(every, "this agent is on standby until the active one ends", "ask the active agent: name its run directory with --run-dir")
	}
	return Finding{State: OK, Why: fmt.Sprintf("accelmux %s, pid %d", w.Report.Version, w.Report.PID)}
}
