package topology

import (
	"context"
	"testing"
)

// TestPartial verifies that an explanation without time says so, and has the choice.
func TestPartial(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	units := dgx1()
	e := Prepare(units, Options{}).Explain(ended, Request{Available: ids(units), Size: 2})
	if !e.Partial || e.RunnerUp != nil || e.Equal || len(e.IDs) != 2 {
		t.Errorf("explained without time: %+v", e)
	}
	e = Prepare(units, Options{}).Explain(t.Context(), Request{Available: ids(units), Size: 2})
	if e.Partial || e.RunnerUp == nil {
		t.Errorf("explained: %+v", e)
	}
}
