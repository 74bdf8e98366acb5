package sdk

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"
)

// go-plugin's client parses the lines as hclog's.
func TestLogger(t *testing.T) {
	for level, want := range map[slog.Level]string{
		slog.LevelDebug - 4: "trace", slog.LevelDebug: "debug", slog.LevelInfo: "info",
		slog.LevelWarn: "warn", slog.LevelError: "error", slog.LevelError + 4: "error",
	} {
		var buf bytes.Buffer
		newLogger(&buf).With("device", "d0").Log(t.Context(), level, "text", "level", 3, "time", "noon")
		var got map[string]any
		if err := json.Unmarshal(buf.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		stamp, _ := got["@timestamp"].(string)
		if _, err := time.Parse("2006-01-02T15:04:05.000000Z07:00", stamp); err != nil {
			t.Error(err)
		}
		if got["@level"] != want || got["@message"] != "text" || got["device"] != "d0" || got["level"] != 3.0 || got["time"] != "noon" {
			t.Errorf("%s", &buf)
		}
	}
}
