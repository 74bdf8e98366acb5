package supervisor

import (
	"context"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// pluginLogger takes what go-plugin itself has to say, and turns it into debug
// lines: whatever of it matters to an operator we find out and say ourselves.
type pluginLogger struct {
	hclog.Logger // the methods that go-plugin does not use
	log          *slog.Logger
}

func newPluginLogger(log *slog.Logger) hclog.Logger {
	return pluginLogger{Logger: hclog.NewNullLogger(), log: log}
}

func (l pluginLogger) emit(msg string, args []any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("go-plugin: "+msg, slog.Group("plugin", args...))
	}
}

// Log, Debug, Info, Warn and Error are all debug lines; Trace is dropped.

func (l pluginLogger) Log(_ hclog.Level, msg string, args ...any) { l.emit(msg, args) }
func (l pluginLogger) Debug(msg string, args ...any)              { l.emit(msg, args) }
func (l pluginLogger) Info(msg string, args ...any)               { l.emit(msg, args) }
func (l pluginLogger) Warn(msg string, args ...any)               { l.emit(msg, args) }
func (l pluginLogger) Error(msg string, args ...any)              { l.emit(msg, args) }
func (l pluginLogger) Named(string) hclog.Logger                  { return l }
func (l pluginLogger) With(...any) hclog.Logger                   { return l }
func (l pluginLogger) GetLevel() hclog.Level                      { return hclog.Debug }
