package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// check begins to run a check if it is due, or notices that it hangs.
func (l *loop) check(ctx context.Context, c *check, now time.Time) {
	switch {
	case !c.since.IsZero():
		if !c.hung && now.Sub(c.since) >= hangs {
			c.hung, l.changed = true, true
		}
		return
	case now.Before(c.nextRun):
		return
	}
	c.since, c.nextRun = now, now.Add(cmp.Or(c.Every, l.set.Interval))
	run := c.Run
	go func() {
		err := run(ctx)
		l.post(func() {
			before := c.problems()
			c.since, c.hung, c.err = time.Time{}, false, err
			l.changed = l.changed || !slices.Equal(before, c.problems())
		})
	}()
}

// problems returns the problems of the check, for users.
func (c *check) problems() []string {
	switch {
	case c.hung:
		return []string{fmt.Sprintf("%s began at %s and has not returned: %s", c.What, c.since.UTC().Format(time.RFC3339), c.Hung)}
	case c.err != nil:
		return []string{c.err.Error()}
	}
	return nil
}
