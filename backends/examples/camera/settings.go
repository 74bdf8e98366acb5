package main

import (
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
)

// Step 1: settings. The schema is for editors; decode refuses other fields and types.
func init() {
	description.SettingsSchema = `{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"type": "object",
		"additionalProperties": false,
		"properties": {"interval": {"type": "string", "description": "Time between two scans, at least 1s; default 10s."}}
	}`
	var current atomic.Int64
	interval = func() time.Duration { return time.Duration(current.Load()) }
	decode = func(raw json.RawMessage) error {
		s := struct {
			Interval sdk.Duration `json:"interval"`
		}{sdk.Duration(10 * time.Second)}
		if err := sdk.DecodeSettings(raw, &s); err != nil {
			return err
		}
		if time.Duration(s.Interval) < time.Second {
			return sdk.FieldErrors{{Field: "interval", Message: "must be at least 1s"}}
		}
		current.Store(int64(s.Interval))
		return nil
	}
}
