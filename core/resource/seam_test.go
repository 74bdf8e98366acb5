package resource

import "github.com/accelmux/accelmux/core/health"

var _ Verdicts = (*health.View)(nil)
