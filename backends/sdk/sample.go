package sdk

import (
	"context"
	"log/slog"
	"time"
)

// sampleLimit is how long cards may take to be measured. One that hangs has nothing but
// what is known of it anyway.
const sampleLimit = 3 * time.Second

// Collect gathers for [Sampler] what so many cards, measured side by side, hand in. What
// has not come after 3 s is left out, so that a card that hangs costs no other's values;
// the channel must have room for it. The error is that of ctx.
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
