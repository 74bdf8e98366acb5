package main

import (
	"encoding/json"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
)

var _ configurable = (*backend)(nil)

// decode is step 1: settings. The core has checked fields and types by settings.schema.json.
func (b *backend) decode(settings json.RawMessage) error {
	var s struct {
		Interval sdk.Duration `json:"interval"`
	}
	s.Interval = sdk.Duration(10 * time.Second)
	if err := json.Unmarshal(settings, &s); err != nil {
		return err
	}
	if time.Duration(s.Interval) < time.Second {
		return sdk.FieldErrors{{Field: "interval", Message: "must be at least 1s"}}
	}
	b.interval.Store(int64(s.Interval))
	return nil
}
