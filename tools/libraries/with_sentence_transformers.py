"""A bi-encoder of random weights trained with a multiple negatives ranking loss.
pip: sentence-transformers transformers
tolerance: 1e-3"""
import tempfile

import torch
import transformers
from sentence_transformers import SentenceTransformer, losses, util
from sentence_transformers.models import Pooling, Transformer

torch.manual_seed(0)
with tempfile.TemporaryDirectory() as folder:
    words = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', *'a cat dog sat on the mat ran home'.split()]
    open(f'{folder}/vocab.txt', 'w').write('\n'.join(words))
    transformers.BertTokenizerFast(f'{folder}/vocab.txt').save_pretrained(folder)
    transformers.BertModel(transformers.BertConfig(vocab_size=len(words), hidden_size=32, num_hidden_layers=1, num_attention_heads=4,
                                                   intermediate_size=64)).save_pretrained(folder)
    encoder = Transformer(folder)
    model = SentenceTransformer(modules=[encoder, Pooling(32)], device='cpu')
sentences = ['a cat sat on the mat', 'the dog ran home', 'a cat ran']
vectors = model.encode(sentences, convert_to_tensor=True, show_progress_bar=False)
print('similar', util.cos_sim(vectors, vectors).flatten().tolist())
loss_of, optimizer = losses.MultipleNegativesRankingLoss(model), torch.optim.AdamW(model.parameters(), 1e-3)
model.eval()
for _ in range(2):
    loss = loss_of([model.tokenize(sentences), model.tokenize(sentences[::-1])], None)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print('loss', loss.item())
