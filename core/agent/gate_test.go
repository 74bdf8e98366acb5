package agent

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/round"
)

var (
	keyA = inventory.Key{Backend: "mock", ID: "a"}
	keyB = inventory.Key{Backend: "mock", ID: "b"}
)

func nobody(inventory.Key) bool { return false }

// Verifies that an allocation waits for a release of one of its devices and goes
// on as soon as that is over, and that other devices are not kept waiting.
func TestTakeWaitsForRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		end, _ := g.begin(releasing, []inventory.Key{keyA}, nobody)
		if err := g.take(t.Context(), []inventory.Key{keyB}, func() {}); err != nil {
			t.Errorf("another device: %v", err)
		}
		var waited time.Duration
		go func() {
			began := time.Now()
			if err := g.take(t.Context(), []inventory.Key{keyB, keyA}, func() {}); err != nil {
				t.Errorf("after the release: %v", err)
			}
			waited = time.Since(began)
		}()
		time.AfterFunc(10*time.Second, end)
		<-time.After(11 * time.Second)
		synctest.Wait()
		if waited != 10*time.Second {
			t.Errorf("waited %v, want the 10s of the release", waited)
		}
	})
}

// Verifies that an allocation does not wait longer than the limit, nor longer
// than its caller.
func TestTakeIsBounded(t *testing.T) {
	for name, c := range map[string]struct{ caller, want time.Duration }{
		"the gate's limit":   {time.Hour, gateWait},
		"the caller's limit": {time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate()
				end, _ := g.begin(releasing, []inventory.Key{keyA}, nobody)
				defer end()
				ctx, cancel := context.WithTimeout(t.Context(), c.caller)
				defer cancel()
				began := time.Now()
				err := g.take(ctx, []inventory.Key{keyA}, func() { t.Error("committed") })
				if err == nil || time.Since(began) != c.want {
					t.Errorf("after %v: %v; want a refusal after %v", time.Since(began), err, c.want)
				}
			})
		})
	}
}

// Verifies that an allocation of a device that is being reset is refused at once,
// and that nothing is committed for it.
func TestTakeRefusesDuringReset(t *testing.T) {
	g := newGate()
	end, _ := g.begin(resetting, []inventory.Key{keyA}, nobody)
	defer end()
	committed := false
	err := g.take(t.Context(), []inventory.Key{keyB, keyA}, func() { committed = true })
	if err == nil || !strings.Contains(err.Error(), "mock/a is being reset") || committed {
		t.Errorf("%v, committed %v; want a refusal and nothing committed", err, committed)
	}
}

// Verifies that work does not begin on devices of which one is held or worked on
// already, and that what was not begun leaves no mark.
func TestBeginRefuses(t *testing.T) {
	g := newGate()
	holdsB := func(key inventory.Key) bool { return key == keyB }
	if end, blocker := g.begin(resetting, []inventory.Key{keyA, keyB}, holdsB); end != nil || blocker != keyB {
		t.Errorf("began although %s is held", blocker)
	}
	end, _ := g.begin(releasing, []inventory.Key{keyA}, holdsB)
	if end == nil {
		t.Fatal("a device that is free was refused")
	}
	if second, blocker := g.begin(resetting, []inventory.Key{keyA}, nobody); second != nil || blocker != keyA {
		t.Error("two works on one device")
	}
	if len(g.resetting()) > 0 {
		t.Error("a release counts as a reset")
	}
	end()
	if again, _ := g.begin(resetting, []inventory.Key{keyA}, nobody); again == nil {
		t.Error("the mark outlived its work")
	}
}

// Verifies that devices that are being reset are unhealthy from the next table on, and
// healthy again after the end, though nothing else has changed.
func TestResetsAreSeen(t *testing.T) {
	g, p, all := newGate(), manyPlan(t), many(3)
	judged := newJudge(t).Judge(all)
	table := func() []bool {
		var healthy []bool
		for _, u := range p.mapper.Map(all, round.Verdicts{Health: judged, Resets: g.resetting()}, nil).Resources[0].Units {
			healthy = append(healthy, u.Verdict.Healthy)
		}
		return healthy
	}
	before := table()
	end, _ := g.begin(resetting, []inventory.Key{all.Backends[0].Devices[1].Key}, nobody)
	during := table()
	end()
	if after := table(); !slices.Equal(before, []bool{true, true, true}) || !slices.Equal(during, []bool{true, false, true}) || !slices.Equal(after, before) {
		t.Errorf("healthy are before, during and after: %v, %v, %v", before, during, after)
	}
}
