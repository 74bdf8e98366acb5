package supervisor_test

import (
	"context"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/supervisor"
)

// Close looks at the processes once more if its time is over before they were: who did
// not run for so long finds them gone a moment later.
func TestCloseTooLate(t *testing.T) {
	timing := fast()
	timing.Reap = 10 * time.Second
	r := newRig(t, timing)
	r.run(spec("normal"))
	r.untilState(supervisor.Running)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Close(ctx); err != nil {
		t.Error(err)
	}
}
