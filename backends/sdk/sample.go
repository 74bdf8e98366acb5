package sdk

import (
	"context"
	"log/slog"
	"time"
)

// sampleLimit is how long measuring cards may take. For one that hangs there is nothing newer to
// return anyway.
const sampleLimit = 3 * time.Second

// Collect gathers for [Sampler] the metrics of cards that are measured concurrently, as many
// results as there are cards. It leaves out those that take longer than 3 s, so that a card that
// hangs costs no other's values; the channel must have room for them. The error is that of ctx.
func Collect(ctx context.Context, log *slog.Logger, measured <-chan []*Metric, cards int) ([]*Metric, error) {
	late := time.NewTimer(sampleLimit)
	defer late.Stop()
	var metrics []*Metric
	for ; cards > 0; cards-- {
		select {
		case values := <-measured:
			metrics = append(metrics, values...)
		case <-late.C:
			log.Debug("cards could not be measured in time", "cards", cards)
			return metrics, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return metrics, nil
}
