package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/takeover"
)

// notInstalledTwice ends what is said of agents that may be there by mistake.
const notInstalledTwice = "if no update is going on, accelmux is installed twice on this node (two charts, or a service beside a DaemonSet): remove one"

// others are what status says of other agents.
func others(peers ...*takeover.Peer) []status.Other {
	var all []status.Other
	for _, p := range peers {
		if p == nil {
			continue
		}
		note := map[string]string{
			takeover.RoleActive:    "it serves the node; " + notInstalledTwice,
			takeover.RoleStandby:   "it takes over again when this one ends; " + notInstalledTwice,
			takeover.RoleSuccessor: "it takes over when its backends work; " + notInstalledTwice,
			takeover.RoleRefused:   "it was started without --take-over while this one is active, and has ended: stop what starts it, or give it --take-over",
		}[p.Role]
		all = append(all, status.Other{
			Role: status.Role(p.Role), PID: p.PID, Host: p.Host, Version: p.Version, Since: p.Since, Note: note,
		})
	}
	return all
}

// takeAlone takes the post of an agent that takes no turns. If the active one answers that
// it stays, that is told at once; what only has the lock may be about to end.
func takeAlone(opts Options, dir string) (*takeover.Post, *takeover.Place, error) {
	take := func() (*takeover.Post, error) {
		return takeover.Take(dir, takeover.Self(takeover.RoleActive, status.Version))
	}
	post, err := take()
	if errors.Is(err, takeover.ErrHeld) && !stays(dir) {
		post, err = patiently(opts.withDefaults().Log, take)
	}
	if err = holderError(dir, err); errors.Is(err, takeover.ErrHeld) {
		err = fmt.Errorf("%w: stop it, or take over from it with --take-over and a --run-dir of its own", err)
	}
	return post, nil, err
}

// holderError returns the error for a lock that another process has. If that process is not
// an agent, the error names it.
func holderError(dir string, held error) error {
	if errors.Is(held, takeover.ErrHeld) {
		if err := takeover.CheckHolder(dir); err != nil {
			return err
		}
	}
	return held
}

// stays tells the active agent of this one, and reports whether it has answered that it
// stays. One that does not answer costs the time that its lock may be there for.
func stays(dir string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	stays, _ := takeover.Tell(ctx, dir, takeover.Self(takeover.RoleRefused, status.Version)) // the lock tells, too
	return stays
}
