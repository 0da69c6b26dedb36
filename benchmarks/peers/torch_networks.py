"""The networks of models/ as PyTorch makes them: random weights, inputs as the graphs take them, resident on the GPU.

NETWORKS: name -> function of a dtype that gives the network and a function from batch to its inputs. Time does not depend
on the weights. Needs torch, torchvision, transformers; importing this file needs none of them.
"""


def first_of(answer):
    """The tensor of an answer that is a tuple, a dictionary or a tensor."""
    if isinstance(answer, dict):
        return answer["out"] if "out" in answer else next(iter(answer.values()))
    return answer[0] if isinstance(answer, (tuple, list)) else answer


def wrapped(model, call):
    """A module that gives one tensor."""
    import torch

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *x):
            return first_of(call(self.model, *x))

    return Network().eval()


def image(make, pixels, channels_last=True):
    def build(dtype):
        import torch

        layout = torch.channels_last if channels_last else torch.contiguous_format
        net = wrapped(make(), lambda m, x: m(x)).to(dtype).cuda().to(memory_format=layout)

        def inputs(batch):
            return (torch.randn(batch, 3, pixels, pixels, device="cuda", dtype=dtype).contiguous(memory_format=layout),)

        return net, inputs

    return build


def text(model, config, sequence=128, **sizes):
    def build(dtype):
        import torch
        import transformers

        c = getattr(transformers, config)(**sizes)
        c._attn_implementation = "sdpa"
        net = wrapped(getattr(transformers, model)(c), lambda m, ids, mask: m(input_ids=ids, attention_mask=mask)).to(dtype).cuda()

        def inputs(batch):
            ids = torch.randint(0, 1000, (batch, sequence), device="cuda")
            return ids, torch.ones(batch, sequence, dtype=torch.long, device="cuda")

        return net, inputs

    return build


def vision(name):
    def make():
        import torchvision.models

        return getattr(torchvision.models, name)(weights=None)

    return make


def segmentation(name):
    def make():
        import torchvision.models.segmentation

        return getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None, num_classes=21)

    return make


def unet(width=32):
    """Three levels down and up, as models/unet.stripped.onnx has them."""
    import torch
    from torch import nn

    def block(i, o):
        return nn.Sequential(
            nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU()
        )

    w = width

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.ModuleList([block(3, w), block(w, 2 * w), block(2 * w, 4 * w)])
            self.middle, self.pool = block(4 * w, 8 * w), nn.MaxPool2d(2)
            self.up = nn.ModuleList([nn.ConvTranspose2d(2 * k * w, k * w, 2, 2) for k in (4, 2, 1)])
            self.join = nn.ModuleList([block(2 * k * w, k * w) for k in (4, 2, 1)])
            self.last = nn.Conv2d(w, 1, 1)

        def forward(self, x):
            skips = []
            for down in self.down:
                skips.append(down(x))
                x = self.pool(skips[-1])
            x = self.middle(x)
            for up, join in zip(self.up, self.join):
                x = join(torch.cat([up(x), skips.pop()], 1))
            return torch.sigmoid(self.last(x))

    return UNet()


def detection(dtype):
    """ssdlite320 takes a list of pictures, and its answers have no fixed size: it is run as it is, not captured."""
    import torch
    import torchvision.models.detection as tv

    model = tv.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None).eval().to(dtype).cuda()

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model([x[0]])[0]["boxes"]

    return Network().eval(), lambda batch: (torch.rand(batch, 3, 320, 320, device="cuda", dtype=dtype),)


LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
NETWORKS = {
    "resnet50": image(vision("resnet50"), 224),
    "mobilenet_v3_large": image(vision("mobilenet_v3_large"), 224),
    "efficientnet_b0": image(vision("efficientnet_b0"), 224),
    "vit_b_16": image(vision("vit_b_16"), 224, channels_last=False),
    "deeplabv3_resnet50": image(segmentation("deeplabv3_resnet50"), 512),
    "unet": image(unet, 256),
    "bert_base": text("BertModel", "BertConfig"),
    "bert_large": text("BertModel", "BertConfig", **LARGE),
    "gpt2": text("GPT2Model", "GPT2Config", use_cache=False),
    "ssdlite320": detection,
}
