"""Speech: encoders of waveforms, vocoders, acoustic models, codecs."""
import torch
import transformers
from torch import nn

from spec import model, sized
from text import Part

WIDE, INNER, HEADS, LAYERS = sized(192, 32), sized(384, 48), sized(4, 2), sized(2, 1)
WAVE = [{"batch": 1, "length": sized(8000, 1200)}, {"batch": 2, "length": sized(5000, 900)}]
CONVOLUTIONS = {"conv_dim": (sized(128, 16),) * 4, "conv_kernel": (10, 3, 3, 2), "conv_stride": (5, 4, 2, 2), "num_feat_extract_layers": 4,
                "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
SHARED = {"hidden_size": WIDE, "intermediate_size": INNER, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}


def wave(batch, length):
    return (torch.randn(batch, length),)


def hearer(name, kind, **options):
    """An encoder of waveforms, of any length and of one."""
    for suffix, dynamic in (("", {0: "batch", 1: "length"}), ("_fixed", None)):
        @model(name + suffix, wave, WAVE if dynamic else WAVE[:1], ["wave"], ["hidden"], dynamic={"wave": dynamic} if dynamic else {})
        def build():
            config = getattr(transformers, kind + "Config")(**SHARED, **CONVOLUTIONS, **options)
            return Part(getattr(transformers, kind + "Model")(config), ("input_values",), ["last_hidden_state"])


hearer("wav2vec2", "Wav2Vec2")
hearer("wav2vec2_stable", "Wav2Vec2", do_stable_layer_norm=True, feat_extract_norm="layer", conv_bias=True)
hearer("hubert", "Hubert")
hearer("wavlm", "WavLM")
hearer("conformer", "Wav2Vec2Conformer", position_embeddings_type="relative")
hearer("conformer_rotary", "Wav2Vec2Conformer", position_embeddings_type="rotary")
hearer("unispeech_sat", "UniSpeechSat")
hearer("data2vec_audio", "Data2VecAudio", conv_pos_kernel_size=5)
hearer("sew", "SEW", squeeze_factor=2)
hearer("sew_d", "SEWD", squeeze_factor=2, position_buckets=32)
FEATURES = [{"batch": 1, "length": sized(120, 24)}, {"batch": 2, "length": sized(77, 17)}]


@model("wav2vec2_bert", lambda batch, length: (torch.randn(batch, length, 32),), FEATURES, ["features"], ["hidden"],
       dynamic={"features": {0: "batch", 1: "length"}})
def wav2vec2_bert():
    config = transformers.Wav2Vec2BertConfig(**SHARED, feature_projection_input_dim=32)
    return Part(transformers.Wav2Vec2BertModel(config), ("input_features",), ["last_hidden_state"])


@model("parakeet", lambda batch, length: (torch.randn(batch, length, 80),), FEATURES, ["features"], ["hidden"],
       dynamic={"features": {0: "batch", 1: "length"}})
def parakeet():
    config = transformers.ParakeetEncoderConfig(**SHARED, num_mel_bins=80, subsampling_conv_channels=32)
    return Part(transformers.ParakeetEncoder(config), ("input_features",), ["last_hidden_state"])


@model("speech_to_text", lambda batch, length: (torch.randn(batch, length, 40),), FEATURES, ["features"], ["hidden"],
       dynamic={"features": {0: "batch", 1: "length"}})
def speech_to_text():
    config = transformers.Speech2TextConfig(d_model=WIDE, encoder_layers=LAYERS, encoder_ffn_dim=INNER, encoder_attention_heads=HEADS,
                                            input_feat_per_channel=40, conv_channels=64, max_source_positions=512)
    return Part(transformers.models.speech_to_text.modeling_speech_to_text.Speech2TextEncoder(config), ("input_features",),
                ["last_hidden_state"])


@model("spectrogram_transformer", lambda batch: (torch.randn(batch, sized(256, 48), 64),), [{"batch": 1}, {"batch": 2}], ["features"],
       ["hidden"], dynamic={"features": {0: "batch"}})
def spectrogram_transformer():
    config = transformers.ASTConfig(**SHARED, num_mel_bins=64, max_length=sized(256, 48))
    return Part(transformers.ASTModel(config), ("input_values",), ["last_hidden_state"])


@model("moonshine", wave, WAVE, ["wave"], ["hidden"], dynamic={"wave": {0: "batch", 1: "length"}})
def moonshine():
    config = transformers.MoonshineConfig(hidden_size=WIDE, intermediate_size=INNER, encoder_num_hidden_layers=LAYERS,
                                          encoder_num_attention_heads=HEADS, decoder_num_attention_heads=HEADS)
    return Part(transformers.MoonshineModel(config).encoder, ("input_values",), ["last_hidden_state"])


class Plain(nn.Module):
    """The first results of a module that takes tensors in order."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *values):
        made = self.inner(*values)
        return made[0] if isinstance(made, (tuple, list)) else made


MEL = [{"batch": 1, "length": sized(48, 9)}, {"batch": 2, "length": sized(31, 6)}]


@model("hifi_gan", lambda batch, length: (torch.randn(batch, length, 40),), MEL, ["mel"], ["wave"],
       dynamic={"mel": {0: "batch", 1: "length"}})
def hifi_gan():
    config = transformers.SpeechT5HifiGanConfig(model_in_dim=40, upsample_initial_channel=sized(128, 32), upsample_rates=[4, 4, 2],
                                                upsample_kernel_sizes=[8, 8, 4])
    made = transformers.SpeechT5HifiGan(config)
    for part in made.modules():
        if isinstance(part, (nn.Conv1d, nn.ConvTranspose1d)):  # with the published deviation of 0.01 the answer is silence
            nn.init.kaiming_normal_(part.weight)
    return Plain(made)


class ConvNeXtBlock(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.depth, self.norm = nn.Conv1d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.scale = nn.Parameter(torch.full((width,), 0.5))

    def forward(self, x):
        y = self.norm(self.depth(x).transpose(1, 2))
        return x + (self.scale * self.down(nn.functional.gelu(self.up(y)))).transpose(1, 2)


class Vocos(nn.Module):
    """ConvNeXt blocks, then magnitudes and phases of a spectrum, whose inverse short-time transform is the waveform."""

    def __init__(self, istft, points=sized(256, 32), width=sized(128, 16)):
        super().__init__()
        self.istft, self.points, self.hop = istft, points, points // 4
        self.embed = nn.Conv1d(40, width, 7, padding=3)
        self.blocks = nn.Sequential(*(ConvNeXtBlock(width, 3 * width) for _ in range(LAYERS)))
        self.head = nn.Linear(width, points + 2)
        self.register_buffer("window", torch.hann_window(points))
        angle = 2 * torch.pi * torch.outer(torch.arange(points // 2 + 1), torch.arange(points)) / points
        weight = torch.full((points // 2 + 1, 1), 2.0 / points)
        weight[0] = weight[-1] = 1.0 / points
        basis = torch.cat([weight * torch.cos(angle), -weight * torch.sin(angle)])
        self.register_buffer("basis", (basis * self.window)[:, None])

    def forward(self, mel):
        y = self.head(self.blocks(self.embed(mel)).transpose(1, 2)).transpose(1, 2)
        size, phase = y.chunk(2, 1)
        size = torch.exp(size).clip(max=100)
        if self.istft:
            spectrum = size * torch.complex(torch.cos(phase), torch.sin(phase))
            return torch.istft(spectrum, self.points, self.hop, self.points, self.window, center=True)
        made = nn.functional.conv_transpose1d(torch.cat([size * torch.cos(phase), size * torch.sin(phase)], 1), self.basis, stride=self.hop)
        ones = torch.ones_like(y[:1, :1])
        weight = nn.functional.conv_transpose1d(ones, (self.window**2)[None, None], stride=self.hop)
        return (made / (weight + 1e-3))[:, 0, self.points // 2:-(self.points // 2)]


def mel_image(batch, length):
    return (torch.randn(batch, 40, length),)


@model("vocos", mel_image, MEL, ["mel"], ["wave"], dynamic={"mel": {0: "batch", 2: "length"}})
def vocos():
    return Vocos(False)


@model("vocos_istft", mel_image, MEL[:1], ["mel"], ["wave"])
def vocos_istft():
    return Vocos(True)


class Spectrum(nn.Module):
    """The features that speech networks begin with: the logarithm of a mel spectrogram."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(256))
        self.register_buffer("filters", torch.rand(40, 129))

    def forward(self, x):
        made = torch.stft(x, 256, 64, 256, self.window, return_complex=True)
        return torch.log((self.filters @ made.abs().square()).clamp(min=1e-6))


@model("mel_spectrogram", wave, WAVE, ["wave"], ["mel"], dynamic={"wave": {0: "batch", 1: "length"}})
def mel_spectrogram():
    return Spectrum()


@model("fastspeech2", lambda length: (torch.randint(1, 40, (1, length)),), [{"length": sized(24, 7)}, {"length": 5}], ["phonemes"],
       ["mel"], dynamic={"phonemes": {1: "length"}})
def fastspeech2():
    config = transformers.FastSpeech2ConformerConfig(hidden_size=sized(96, 32), vocab_size=40, encoder_layers=1, decoder_layers=1,
                                                     encoder_linear_units=INNER, decoder_linear_units=INNER, num_mel_bins=40,
                                                     encoder_num_attention_heads=2, decoder_num_attention_heads=2,
                                                     duration_predictor_channels=32, energy_predictor_channels=32,
                                                     pitch_predictor_channels=32, speech_decoder_postnet_units=32)
    made = transformers.FastSpeech2ConformerModel(config)
    nn.init.constant_(made.duration_predictor.linear.bias, 1.2)
    nn.init.normal_(made.duration_predictor.linear.weight, std=0.05)

    class Called(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = made

        def forward(self, x):
            return self.inner(x).spectrogram
    return Called()


@model("vits", lambda length: (torch.randint(1, 38, (1, length)),), [{"length": sized(24, 7)}, {"length": 5}], ["tokens"], ["wave"],
       dynamic={"tokens": {1: "length"}})
def vits():
    config = transformers.VitsConfig(hidden_size=64, num_hidden_layers=1, ffn_dim=96, flow_size=64, spectrogram_bins=33,
                                     upsample_initial_channel=64, upsample_rates=[4, 4], upsample_kernel_sizes=[8, 8],
                                     prior_encoder_num_flows=2, prior_encoder_num_wavenet_layers=2, noise_scale=0.0,
                                     noise_scale_duration=0.0, use_stochastic_duration_prediction=False)

    class Called(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = transformers.VitsModel(config)

        def forward(self, x):
            return self.inner(x).waveform
    return Called()


class Codec(nn.Module):
    """From a waveform to codes and back."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x).audio_values


def sound(batch, length):
    return (torch.randn(batch, 1, length),)


CODEC = [{"batch": 1, "length": sized(4096, 512)}, {"batch": 2, "length": sized(4096, 512)}]


@model("encodec", sound, CODEC, ["wave"], ["again"], dynamic={"wave": {0: "batch"}})
def encodec():
    return Codec(transformers.EncodecModel(transformers.EncodecConfig(num_filters=8, hidden_size=32, codebook_size=64, codebook_dim=32,
                                                                      upsampling_ratios=[8, 4, 2])))


@model("dac", sound, CODEC, ["wave"], ["again"], dynamic={"wave": {0: "batch"}})
def dac():
    return Codec(transformers.DacModel(transformers.DacConfig(encoder_hidden_size=16, decoder_hidden_size=128, codebook_size=64,
                                                              downsampling_ratios=[2, 4, 8], n_codebooks=3, codebook_dim=4)))
