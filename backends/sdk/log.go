package sdk

import (
	"io"
	"log/slog"
	"os"
	"strings"
)

// timestamp is hclog's layout.
const timestamp = "2006-01-02T15:04:05.000000Z07:00"

// Logger writes to the core's log, which preserves levels and keys. Levels below slog.LevelDebug
// arrive as trace. Use the keys "device" and "resource" for devices and resources; the core adds
// "backend". In a process that runs [Serve], slog.Default is such a logger, too.
func Logger() *slog.Logger { return newLogger(os.Stderr) }

// newLogger writes JSON lines in the form of github.com/hashicorp/go-hclog.
func newLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{
		Level: slog.LevelDebug - 4, // the core filters
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) > 0 {
				return a
			}
			switch a.Key {
			case slog.TimeKey:
				if a.Value.Kind() == slog.KindTime {
					return slog.String("@timestamp", a.Value.Time().Format(timestamp))
				}
			case slog.LevelKey:
				if level, ok := a.Value.Any().(slog.Level); ok {
					return slog.String("@level", levelName(level))
				}
			case slog.MessageKey:
				return slog.Attr{Key: "@message", Value: a.Value}
			}
			return a
		},
	}))
}

func levelName(l slog.Level) string {
	switch {
	case l < slog.LevelDebug:
		return "trace"
	case l < slog.LevelInfo:
		return "debug"
	case l < slog.LevelWarn:
		return "info"
	case l < slog.LevelError:
		return "warn"
	}
	return "error"
}

// lines returns the non-empty lines of a text.
func lines(s string) []string {
	var out []string
	for l := range strings.Lines(s) {
		if l = strings.TrimSpace(l); l != "" {
			out = append(out, l)
		}
	}
	return out
}
