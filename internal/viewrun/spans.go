// SPDX-License-Identifier: Apache-2.0

package viewrun

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/viewproc"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// flushMax is how long the last spans may take to be delivered when the run has ended.
const flushMax = 2 * time.Second

// spans are the phases of a run for a collector of OpenTelemetry, which the environment names.
type spans struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	ctx      context.Context // with whole
	whole    trace.Span
	said     sync.Once
}

// newSpans begins the span of the whole run.
func newSpans(version string) (*spans, error) {
	if p := os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"); p != "" && p != "http/protobuf" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: found %.100q, want http/protobuf, or nothing", p)
	}
	exporter, err := otlptracehttp.New(context.Background())
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %w", err)
	}
	about, err := resource.New(context.Background(), resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "disco-run"), attribute.String("service.version", version)),
		resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	s := new(spans)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		s.said.Do(func() { fmt.Fprintf(os.Stderr, "spans of the run can't be delivered: %v\n", err) })
	}))
	s.provider = sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	s.tracer = s.provider.Tracer("github.com/disco-sim/disco", trace.WithInstrumentationVersion(version))
	s.ctx, s.whole = s.tracer.Start(context.Background(), "run")
	return s, nil
}

// add adds a phase; of the whole run it is the end.
func (s *spans) add(p *viewproc.Phase) {
	span := s.whole
	if !p.Whole {
		_, span = s.tracer.Start(s.ctx, p.Name, trace.WithTimestamp(p.Began))
	}
	for name, value := range p.About {
		span.SetAttributes(attribute.String("disco."+name, value))
	}
	if p.Error != "" {
		span.SetStatus(codes.Error, p.Error)
	}
	span.End(trace.WithTimestamp(p.Ended))
}

// close delivers what there is.
func (s *spans) close() {
	ctx, cancel := context.WithTimeout(context.Background(), flushMax)
	defer cancel()
	s.whole.End() // of a run that was killed
	if err := s.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
}
