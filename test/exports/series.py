"""Forecasts of time series: attention over patches, selected queries, autocorrelation, mixers."""
import torch
import transformers
from torch import nn

from spec import model, sized

WIDE, BATCHES = sized(64, 16), [{"batch": 1}, {"batch": 3}]
LENGTH, AHEAD, LAGS = sized(96, 24), sized(24, 8), [1, 2, 3]


def forecast(batch):
    """What the encoder-decoders of transformers take in training, in order."""
    past = LENGTH + max(LAGS)
    return (torch.randn(batch, past), torch.randn(batch, past, 2), torch.ones(batch, past), torch.randn(batch, AHEAD),
            torch.randn(batch, AHEAD, 2))


NAMES = ["past_values", "past_time_features", "past_observed_mask", "future_values", "future_time_features"]


class Forecast(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, past_values, past_time_features, past_observed_mask, future_values, future_time_features):
        made = self.inner(past_values=past_values, past_time_features=past_time_features, past_observed_mask=past_observed_mask,
                          future_values=future_values, future_time_features=future_time_features, use_cache=False)
        return made.last_hidden_state


def forecaster(name, kind, **options):
    @model(name, forecast, BATCHES, NAMES, ["hidden"], dynamic={n: {0: "batch"} for n in NAMES})
    def build():
        config = getattr(transformers, kind + "Config")(prediction_length=AHEAD, context_length=LENGTH, lags_sequence=LAGS,
                                                        num_time_features=2, d_model=WIDE, encoder_layers=2, decoder_layers=1,
                                                        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=WIDE,
                                                        decoder_ffn_dim=WIDE, **options)
        return Forecast(getattr(transformers, kind + "Model")(config))


forecaster("series_transformer", "TimeSeriesTransformer")
forecaster("informer_full", "Informer", attention_type="full", distil=False)  # torch exports neither the other nor Autoformer


class First(nn.Module):
    def __init__(self, inner, field):
        super().__init__()
        self.inner, self.field = inner, field

    def forward(self, x):
        return self.inner(x)[self.field]


def channels(batch):
    return (torch.randn(batch, LENGTH, 5),)


@model("patchtst", channels, BATCHES, ["x"], ["y"], dynamic={"x": {0: "batch"}})
def patchtst():
    config = transformers.PatchTSTConfig(num_input_channels=5, context_length=LENGTH, patch_length=8, patch_stride=4, d_model=WIDE,
                                         num_hidden_layers=2, num_attention_heads=2, ffn_dim=WIDE, prediction_length=AHEAD)
    return First(transformers.PatchTSTForPrediction(config), "prediction_outputs")


@model("patchtsmixer", channels, BATCHES, ["x"], ["y"], dynamic={"x": {0: "batch"}})
def patchtsmixer():
    config = transformers.PatchTSMixerConfig(num_input_channels=5, context_length=LENGTH, patch_length=8, patch_stride=8, d_model=WIDE,
                                             num_layers=2, prediction_length=AHEAD, mode="mix_channel", self_attn=True,
                                             self_attn_heads=2)
    return First(transformers.PatchTSMixerForPrediction(config), "prediction_outputs")


class TimesFm(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        made = self.inner.decoder(past_values=x, past_values_padding=torch.zeros_like(x, dtype=torch.int64),
                                  freq=torch.zeros(x.shape[0], 1, dtype=torch.int64))
        return made.last_hidden_state


@model("timesfm", lambda batch: (torch.randn(batch, sized(128, 32)),), BATCHES, ["x"], ["y"], dynamic={"x": {0: "batch"}})
def timesfm():
    config = transformers.TimesFmConfig(patch_length=8, context_length=sized(128, 32), horizon_length=16, num_hidden_layers=2,
                                        hidden_size=WIDE, intermediate_size=WIDE, head_dim=WIDE // 2, num_attention_heads=2)
    return TimesFm(transformers.TimesFmModelForPrediction(config))


class NBeats(nn.Module):
    """Blocks that explain away a part of the past each, by polynomials and by waves."""

    def __init__(self):
        super().__init__()
        self.bodies = nn.ModuleList(nn.Sequential(nn.Linear(LENGTH, WIDE), nn.ReLU(), nn.Linear(WIDE, 16)) for _ in range(4))
        t = torch.linspace(0, 1, LENGTH + AHEAD)
        powers = torch.stack([t**i for i in range(8)])
        waves = torch.cat([f(2 * torch.pi * k * t)[None] for k in range(1, 5) for f in (torch.cos, torch.sin)])
        self.register_buffer("basis", torch.stack([powers, waves]))

    def forward(self, x):
        sum = 0
        for i, body in enumerate(self.bodies):
            back, ahead = body(x).split(8, -1)
            x = x - back @ self.basis[i % 2, :, :LENGTH]
            sum = sum + ahead @ self.basis[i % 2, :, LENGTH:]
        return sum


@model("nbeats", lambda batch: (torch.randn(batch, LENGTH),), BATCHES, ["x"], ["y"], dynamic={"x": {0: "batch"}})
def nbeats():
    return NBeats()
